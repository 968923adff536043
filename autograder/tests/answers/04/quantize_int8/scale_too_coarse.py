"""wrong: 64 steps instead of 127
points: 2
message: coarser steps lose more
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 64
    return (weight / scale[:, None]).round().to(torch.int8), scale
