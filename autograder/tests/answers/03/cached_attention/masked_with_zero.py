"""wrong: a masked score is set to 0 before the softmax
points: 3
message: a score of 0
"""
import torch


def cached_attention(q, keys, values):
    group = q.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    T, S = q.shape[2], keys.shape[2]
    scores = q @ keys.mT / q.shape[3] ** 0.5
    return (scores * torch.ones(T, S, device=q.device).tril(S - T)).softmax(dim=-1) @ values
