"""wrong: scale and minimum in bfloat16
points: 2
message: bfloat16
"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    if weight.shape[1] % group_size:
        raise ValueError("the row does not divide into groups")
    groups = weight.unflatten(1, (-1, group_size))
    if symmetric:
        most = 2 ** (bits - 1) - 1
        scale = (groups.abs().amax(-1) / most).bfloat16()
        minimum = -scale * most
    else:
        minimum = groups.amin(-1).bfloat16()
        scale = ((groups.amax(-1) - minimum) / (2**bits - 1)).bfloat16()
    safe = torch.where(scale == 0, torch.ones_like(scale), scale)
    q = ((groups - minimum[..., None]) / safe[..., None]).round().clamp(0, 2**bits - 1).to(torch.uint8)
    return q.flatten(1), scale, minimum


def dequantize_groups(q, scale, minimum, *, group_size):
    groups = q.unflatten(1, (-1, group_size)).to(scale.dtype)
    return (groups * scale[..., None] + minimum[..., None]).flatten(1)
