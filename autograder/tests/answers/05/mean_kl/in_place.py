"""wrong: the logits that came in are normalised in place
points: 2
message: has changed
"""
import torch


def mean_kl(reference, other):
    log_p = reference.sub_(reference.logsumexp(-1, keepdim=True))
    log_q = other.sub_(other.logsumexp(-1, keepdim=True))
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()
