"""wrong: cast as a whole, the scale applied afterwards
points: 2
message: the weight is turned into floats as a whole
speed: none
"""
import torch


def int8_matvec(x, q, scale):
    return torch.nn.functional.linear(x, q.to(x.dtype)) * scale
