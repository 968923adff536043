"""wrong: one scale and one minimum for a whole row
points: 1
message: whole row
"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    if weight.shape[1] % group_size:
        raise ValueError("the row does not divide into groups")
    if symmetric:
        most = 2 ** (bits - 1) - 1
        scale = weight.abs().amax(1, keepdim=True) / most
        minimum = -scale * most
    else:
        minimum = weight.amin(1, keepdim=True)
        scale = (weight.amax(1, keepdim=True) - minimum) / (2**bits - 1)
    q = ((weight - minimum) / scale.clamp(min=1e-12)).round().to(torch.uint8)
    return q, scale, minimum


def dequantize_groups(q, scale, minimum, *, group_size):
    return q * scale + minimum
