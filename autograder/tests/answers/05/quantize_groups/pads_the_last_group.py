"""wrong: a row that does not divide is filled up with zeros
points: 4
message: ValueError
"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    columns = weight.shape[1]
    groups = torch.nn.functional.pad(weight, (0, -columns % group_size)).unflatten(1, (-1, group_size))
    if symmetric:
        most = 2 ** (bits - 1) - 1
        scale = groups.abs().amax(-1) / most
        minimum = -scale * most
    else:
        minimum = groups.amin(-1)
        scale = (groups.amax(-1) - minimum) / (2**bits - 1)
    safe = torch.where(scale == 0, torch.ones_like(scale), scale)
    q = ((groups - minimum[..., None]) / safe[..., None]).round().to(torch.uint8)
    return q.flatten(1)[:, :columns], scale, minimum


def dequantize_groups(q, scale, minimum, *, group_size):
    groups = q.unflatten(1, (-1, group_size)).to(scale.dtype)
    return (groups * scale[..., None] + minimum[..., None]).flatten(1)
