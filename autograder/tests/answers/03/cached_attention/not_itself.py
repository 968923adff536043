"""wrong: a token does not see itself
points: 2
message: itself
"""
import torch


def cached_attention(q, keys, values):
    group = q.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    T, S = q.shape[2], keys.shape[2]
    scores = q @ keys.mT / q.shape[3] ** 0.5
    mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T - 1)
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1) @ values
