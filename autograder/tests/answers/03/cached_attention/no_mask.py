"""wrong: every new token sees all new tokens
points: 3
message: no mask
"""
import torch.nn.functional as F


def cached_attention(q, keys, values):
    return F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)
