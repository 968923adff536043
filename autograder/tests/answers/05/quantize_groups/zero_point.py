"""wrong: an integer zero point in the place of the minimum, as some libraries store it
points: 1
message: zero point
"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    if weight.shape[1] % group_size:
        raise ValueError("the row does not divide into groups")
    groups = weight.unflatten(1, (-1, group_size))
    if symmetric:
        most = 2 ** (bits - 1) - 1
        scale = groups.abs().amax(-1) / most
        zero = torch.full_like(scale, most)
    else:
        scale = (groups.amax(-1) - groups.amin(-1)) / (2**bits - 1)
        safe = torch.where(scale == 0, torch.ones_like(scale), scale)
        zero = (-groups.amin(-1) / safe).round()
    safe = torch.where(scale == 0, torch.ones_like(scale), scale)
    q = ((groups / safe[..., None]).round() + zero[..., None]).clamp(0, 2**bits - 1).to(torch.uint8)
    return q.flatten(1), scale, zero


def dequantize_groups(q, scale, minimum, *, group_size):
    groups = q.unflatten(1, (-1, group_size)).to(scale.dtype)
    return ((groups - minimum[..., None]) * scale[..., None]).flatten(1)
