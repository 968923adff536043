"""wrong: the largest number of a row instead of its largest magnitude
points: 2
message: largest *magnitude*
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.amax(dim=1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale
