"""wrong: whole numbers, kept in float32
points: 1
message: still take a float's bytes
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).round(), scale
