"""right: the library's attention with a mask of positions
points: 5
"""
import torch
import torch.nn.functional as F


def cached_attention(q, keys, values):
    T, S = q.shape[2], keys.shape[2]
    asked, held = torch.arange(S - T, S, device=q.device), torch.arange(S, device=q.device)
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=held <= asked[:, None], enable_gqa=True)
