"""wrong: one scale for the whole matrix
points: 0
message: one scale for the whole matrix
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().max() / 127
    return (weight / scale).round().to(torch.int8), scale
