"""wrong: a scale per input
points: 0
message: it belongs to the
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=0).clamp_min(1e-12) / 127
    return (weight / scale).round().to(torch.int8), scale
