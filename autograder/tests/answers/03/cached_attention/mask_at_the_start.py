"""wrong: torch's causal mask, which is aligned at the first key
points: 2
message: aligned at the start
"""
import torch.nn.functional as F


def cached_attention(q, keys, values):
    return F.scaled_dot_product_attention(q, keys, values, is_causal=True, enable_gqa=True)
