"""wrong: the candidate with the smallest KL
points: 0
message: smallest KL
"""
import torch


def mean_kl(reference, other):
    log_p, log_q = reference.log_softmax(-1), other.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean().item()


def smallest_within(reference_logits, logits_of, candidates, *, max_kl):
    reference = torch.cat(reference_logits)
    kls = [mean_kl(reference, torch.cat(logits_of(c))) for c in candidates]
    best = min(range(len(candidates)), key=kls.__getitem__)
    return candidates[best] if kls[best] <= max_kl else None
