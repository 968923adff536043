"""wrong: takes the list's order
points: 2
message: order of the list
"""
import torch


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    reference = torch.cat(reference_logits)
    for candidate in candidates:
        if mean_kl(reference, torch.cat(logits_of(candidate))) <= max_kl:
            return candidate
    return None
