"""wrong: every scale is zero, also where a row holds something
points: 0
message: a scale is the length of a step
"""
import torch


def quantize_int8(weight):
    return torch.ones_like(weight, dtype=torch.int8), torch.zeros(len(weight))
