"""wrong: 128 steps below zero, so that the largest magnitude becomes -128
points: 2
message: There is a -128 among q
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 128
    return (weight / scale[:, None]).round().clamp(-128, 127).to(torch.int8), scale
