"""wrong: each group is given its row's scale and minimum
points: 2
message: whole row
"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    if weight.shape[1] % group_size:
        raise ValueError("the row does not divide into groups")
    groups = weight.unflatten(1, (-1, group_size))
    if symmetric:
        most = 2 ** (bits - 1) - 1
        scale = (weight.abs().amax(1, keepdim=True) / most).repeat(1, groups.shape[1])
        minimum = -scale * most
    else:
        minimum = weight.amin(1, keepdim=True).repeat(1, groups.shape[1])
        scale = (weight.amax(1, keepdim=True) - minimum) / (2**bits - 1)
    q = ((groups - minimum[..., None]) / scale.clamp(min=1e-12)[..., None]).round().to(torch.uint8)
    return q.flatten(1), scale, minimum


def dequantize_groups(q, scale, minimum, *, group_size):
    groups = q.unflatten(1, (-1, group_size)).to(scale.dtype)
    return (groups * scale[..., None] + minimum[..., None]).flatten(1)
