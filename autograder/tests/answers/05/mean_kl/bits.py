"""wrong: base 2
points: 2
message: nats
"""
import math


def mean_kl(reference_logits, logits):
    log_p, log_q = reference_logits.log_softmax(-1), logits.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item() / math.log(2)
