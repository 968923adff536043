"""wrong: differences of logits that are not normalized
points: 2
message: logits
"""


def mean_kl(reference_logits, logits):
    return (reference_logits.softmax(-1) * (reference_logits - logits)).sum(-1).mean().item()
