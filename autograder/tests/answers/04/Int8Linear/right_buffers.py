"""right: buffers, one way for any number of rows
points: 3
"""
import torch
from torch import nn


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).round().to(torch.int8), scale


class Int8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        q, scale = quantize_int8(linear.weight)
        self.register_buffer("codes", q)
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    @staticmethod
    def from_linear(linear):
        return Int8Linear(linear)

    def forward(self, x):
        y = (x @ self.codes.to(x.dtype).T * self.scale).to(x.dtype)
        return y if self.bias is None else y + self.bias
