"""wrong: raw scores
points: 4
message: square root
"""
import torch.nn.functional as F
import torch


def cached_attention(q, keys, values):
    T, S = q.shape[2], keys.shape[2]
    mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=1.0, enable_gqa=True)
