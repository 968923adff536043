"""wrong: the reference's own entropy is not taken off
points: 2
message: cross-entropy
"""


def mean_kl(reference_logits, logits):
    return -(reference_logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean().item()
