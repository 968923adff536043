"""wrong: a constant group is given the level in the middle and a made-up scale
points: 4
message: constant group
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
    constant = scale == 0
    scale = torch.where(constant, torch.ones_like(scale), scale)
    q = ((groups - minimum[..., None]) / scale[..., None]).round()
    q = torch.where(constant[..., None], torch.full_like(q, 2 ** (bits - 1)), q)
    return q.to(torch.uint8).flatten(1), scale, minimum


def dequantize_groups(q, scale, minimum, *, group_size):
    groups = q.unflatten(1, (-1, group_size)).to(scale.dtype)
    return (groups * scale[..., None] + minimum[..., None]).flatten(1)
