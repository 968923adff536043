"""wrong: where a probability is 0 the term is dropped, however much it weighs
points: 2
message: underflow
"""
import torch


def mean_kl(reference_logits, logits):
    p, q = reference_logits.softmax(-1), logits.softmax(-1)
    terms = p * (p.log() - q.log())
    return torch.where(terms.isfinite(), terms, torch.zeros_like(terms)).sum(-1).mean().item()
