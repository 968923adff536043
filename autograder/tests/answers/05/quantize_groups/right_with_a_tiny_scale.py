"""right: constant groups get the smallest scale there is, levels are chosen by adding a half"""
import torch


def quantize_groups(weight, *, bits, group_size, symmetric):
    O, E = weight.shape
    if E % group_size:
        raise ValueError("groups do not fit")
    groups = weight.reshape(O * E // group_size, group_size)
    if symmetric:
        top = 2 ** (bits - 1) - 1
        scale = (groups.abs().max(1, keepdim=True).values / top).clamp_min(torch.finfo(torch.float32).tiny)
        minimum = -scale * top
    else:
        minimum, highest = groups.aminmax(dim=1, keepdim=True)
        scale = ((highest - minimum) / (2**bits - 1)).clamp_min(torch.finfo(torch.float32).tiny)
    q = torch.floor((groups - minimum) / scale + 0.5).clamp(0, 2**bits - 1)
    return q.byte().reshape(O, E), scale.reshape(O, -1), minimum.reshape(O, -1)


def dequantize_groups(q, scale, minimum, *, group_size):
    groups = q.reshape(-1, group_size).float()
    return torch.addcmul(minimum.reshape(-1, 1), groups, scale.reshape(-1, 1)).reshape(q.shape)
