"""wrong: evaluates every candidate, then picks
points: 2
message: already known
"""
import torch


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    reference = torch.cat(reference_logits)
    good = [c for c in candidates if mean_kl(reference, torch.cat(logits_of(c))) <= max_kl]
    return min(good, key=lambda c: c.bits + (c.scale_bits + c.minimum_bits) / c.group_size, default=None)
