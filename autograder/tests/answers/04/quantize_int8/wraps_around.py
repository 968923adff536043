"""wrong: 128 steps and no clamp: 128 becomes -128
points: 2
message: There is a -128 among q
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 128
    return (weight / scale[:, None]).round().to(torch.int16).to(torch.int8), scale
