"""wrong: summed over positions
points: 2
message: sum over
"""


def mean_kl(reference_logits, logits):
    log_p, log_q = reference_logits.log_softmax(-1), logits.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum().item()
