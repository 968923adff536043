"""wrong: dequantizing repeats the scales 0 1 0 1 instead of 0 0 1 1
points: 4
message: tiled
"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    if weight.shape[1] % group_size:
        raise ValueError("the row does not divide into groups")
    groups = weight.unflatten(1, (-1, group_size))
    if symmetric:
        most = 2 ** (bits - 1) - 1
        scale = groups.abs().amax(-1) / most
        minimum = -scale * most
    else:
        minimum = groups.amin(-1)
        scale = (groups.amax(-1) - minimum) / (2**bits - 1)
    safe = torch.where(scale == 0, torch.ones_like(scale), scale)
    q = ((groups - minimum[..., None]) / safe[..., None]).round().to(torch.uint8)
    return q.flatten(1), scale, minimum


def dequantize_groups(q, scale, minimum, *, group_size):
    return q * scale.repeat(1, group_size) + minimum.repeat(1, group_size)
