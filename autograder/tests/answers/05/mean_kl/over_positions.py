"""wrong: the softmax runs over positions
points: 2
message: vocabulary
"""


def mean_kl(reference_logits, logits):
    log_p, log_q = reference_logits.log_softmax(-2), logits.log_softmax(-2)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()
