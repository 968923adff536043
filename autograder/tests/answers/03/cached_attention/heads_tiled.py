"""wrong: key heads 0 1 0 1 where query heads need 0 0 1 1
points: 4
message: tiled
"""
import torch


def cached_attention(q, keys, values):
    H, T, D = q.shape[1:]
    K, S = keys.shape[1:3]
    keys, values = keys.repeat(1, H // K, 1, 1), values.repeat(1, H // K, 1, 1)
    scores = q @ keys.transpose(-1, -2) / D**0.5
    mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
    return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ values
