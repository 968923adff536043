"""wrong: the mean of both directions
points: 2
message: both directions
"""


def mean_kl(reference_logits, logits):
    log_p, log_q = reference_logits.log_softmax(-1), logits.log_softmax(-1)
    there = (log_p.exp() * (log_p - log_q)).sum(-1).mean()
    back = (log_q.exp() * (log_q - log_p)).sum(-1).mean()
    return ((there + back) / 2).item()
