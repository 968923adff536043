"""wrong: two mistakes at once, each told
points: 3
message: square root
"""
import torch


def cached_attention(q, keys, values):
    group = q.shape[1] // keys.shape[1]
    keys, values = keys.repeat(1, group, 1, 1), values.repeat(1, group, 1, 1)
    T, S = q.shape[2], keys.shape[2]
    mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
    return (q @ keys.mT).masked_fill(~mask, float("-inf")).softmax(dim=-1) @ values
