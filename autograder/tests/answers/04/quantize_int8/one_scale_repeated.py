"""wrong: one scale for the whole matrix, written once per row
points: 2
message: that is one scale for the whole matrix
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().max() / 127
    return (weight / scale).round().to(torch.int8), scale.expand(weight.shape[0]).contiguous()
