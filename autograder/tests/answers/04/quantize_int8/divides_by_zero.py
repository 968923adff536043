"""wrong: a row of zeros is divided by its largest magnitude
points: 2
message: whoever divides by it gets nan
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1) / 127
    return (weight / scale[:, None]).round().nan_to_num().to(torch.int8), scale
