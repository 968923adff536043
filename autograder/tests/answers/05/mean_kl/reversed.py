"""wrong: KL(other || reference)
points: 2
message: other way round
"""


def mean_kl(reference_logits, logits):
    log_p, log_q = reference_logits.log_softmax(-1), logits.log_softmax(-1)
    return (log_q.exp() * (log_q - log_p)).sum(-1).mean().item()
