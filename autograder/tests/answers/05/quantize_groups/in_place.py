"""wrong: the caller's weight is shifted and divided in place
points: 3
message: has changed
"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    if weight.shape[1] % group_size:
        raise ValueError(f"rows of {weight.shape[1]} do not divide into groups of {group_size}")
    groups = weight.unflatten(1, (-1, group_size))
    if symmetric:
        levels = 2 ** (bits - 1) - 1
        scale = groups.abs().amax(dim=-1) / levels
        minimum = -scale * levels
    else:
        minimum = groups.amin(dim=-1)
        scale = (groups.amax(dim=-1) - minimum) / (2**bits - 1)
    groups -= minimum[..., None]                               # in place: the caller's weight is gone
    groups /= scale.masked_fill(scale == 0, 1)[..., None]
    return groups.round().to(torch.uint8).flatten(1), scale, minimum


def dequantize_groups(q, scale, minimum, *, group_size):
    groups = q.unflatten(1, (-1, group_size))
    return (groups * scale[..., None] + minimum[..., None]).flatten(1)
