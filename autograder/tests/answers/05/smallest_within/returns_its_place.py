"""wrong: the place in the list, not the candidate
points: 1
message: candidate itself
"""
import torch


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    reference = torch.cat(reference_logits)
    for candidate in sorted(candidates, key=lambda c: c.bits + (c.scale_bits + c.minimum_bits) / c.group_size):
        if mean_kl(reference, torch.cat(logits_of(candidate))) <= max_kl:
            return candidates.index(candidate)
    return None
