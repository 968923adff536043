"""wrong: halves the list, as if less memory always meant a larger KL
points: 1
message: already known
"""
import torch


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    reference = torch.cat(reference_logits)
    candidates = sorted(candidates, key=lambda c: c.bits + (c.scale_bits + c.minimum_bits) / c.group_size)
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        if mean_kl(reference, torch.cat(logits_of(candidates[middle]))) <= max_kl:
            high = middle
        else:
            low = middle + 1
    return candidates[low] if low < len(candidates) else None
