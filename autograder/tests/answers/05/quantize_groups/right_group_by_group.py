"""right: a loop over groups, each constant one with scale 0"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    rows, columns = weight.shape
    if columns % group_size != 0:
        raise ValueError(f"{columns} columns, groups of {group_size}")
    q = torch.zeros(rows, columns, dtype=torch.uint8, device=weight.device)
    scale = torch.zeros(rows, columns // group_size, device=weight.device)
    minimum = torch.zeros_like(scale)
    levels = 2 ** (bits - 1) - 1
    for g in range(columns // group_size):
        part = weight[:, g * group_size : (g + 1) * group_size]
        if symmetric:
            scale[:, g] = part.abs().max(dim=1).values / levels
            minimum[:, g] = -scale[:, g] * levels
        else:
            minimum[:, g] = part.min(dim=1).values
            scale[:, g] = (part.max(dim=1).values - minimum[:, g]) / (2**bits - 1)
        for row in range(rows):
            if scale[row, g] > 0:
                steps = (part[row] - minimum[row, g]) / scale[row, g]
                q[row, g * group_size : (g + 1) * group_size] = torch.round(steps).to(torch.uint8)
    return q, scale, minimum


def dequantize_groups(q, scale, minimum, *, group_size):
    wide = scale.repeat_interleave(group_size, dim=1)
    return q.float() * wide + minimum.repeat_interleave(group_size, dim=1)
