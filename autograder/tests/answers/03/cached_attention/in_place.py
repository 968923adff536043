"""wrong: the query that came in is scaled in place
points: 4
message: have changed
"""
import math

import torch


def cached_attention(q, keys, values):
    B, H, T, D = q.shape
    K, S = keys.shape[1], keys.shape[2]
    grouped = q.mul_(1 / math.sqrt(D)).view(B, K, H // K, T, D)
    scores = torch.einsum("bkgtd,bksd->bkgts", grouped, keys)
    scores = scores + torch.full((T, S), -1e30, device=q.device).triu(S - T + 1)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("bkgts,bksd->bkgtd", weights, values).reshape(B, H, T, D)
