"""wrong: all codes are zero
points: 1
message: all rows came back as zeros
"""
import torch


def quantize_int8(weight):
    return torch.zeros_like(weight, dtype=torch.int8), weight.float().abs().amax(dim=1).clamp_min(1e-9) / 127
