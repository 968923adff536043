"""wrong: divided by D, not by its square root
points: 4
message: square root
"""
import torch.nn.functional as F
import torch


def cached_attention(q, keys, values):
    T, S, D = q.shape[2], keys.shape[2], q.shape[3]
    mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=1 / D, enable_gqa=True)
