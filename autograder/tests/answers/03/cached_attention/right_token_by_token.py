"""right: one new token after the other
points: 5
"""
import torch


def one(q, keys, values):  # q [B, H, 1, D]
    groups = q.shape[1] // keys.shape[1]
    packed = q.unflatten(1, (-1, groups)).squeeze(3)  # [B, K, groups, D]
    weights = torch.softmax(packed @ keys.mT / packed.shape[-1] ** 0.5, dim=-1)
    return (weights @ values).flatten(1, 2).unsqueeze(2)


def cached_attention(q, keys, values):
    new, held = q.shape[2], keys.shape[2]
    ends = range(held - new + 1, held + 1)
    return torch.cat([one(q[:, :, i : i + 1], keys[:, :, :e], values[:, :, :e]) for i, e in enumerate(ends)], dim=2)
