"""wrong: the fraction is cut off instead of rounded
points: 2
message: it does not round
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).to(torch.int8), scale
