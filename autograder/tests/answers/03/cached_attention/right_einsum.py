"""right: groups by einsum, a mask that is added, a softmax by hand
points: 5
"""
import math

import torch


def cached_attention(q, keys, values):
    B, H, T, D = q.shape
    K, S = keys.shape[1], keys.shape[2]
    grouped = q.view(B, K, H // K, T, D) * (1 / math.sqrt(D))
    scores = torch.einsum("bkgtd,bksd->bkgts", grouped, keys)
    scores = scores + torch.full((T, S), -1e30, device=q.device).triu(S - T + 1)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("bkgts,bksd->bkgtd", weights, values).reshape(B, H, T, D)
