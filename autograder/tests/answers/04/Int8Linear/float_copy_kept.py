"""wrong: the float layer stays as an attribute
points: 2
message: the float weight is still alive
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
        self.linear = linear
        self.q, self.scale = quantize_int8(linear.weight)

    @classmethod
    def from_linear(cls, linear):
        return cls(linear)

    def forward(self, x):
        y = (x @ self.q.to(x.dtype).T * self.scale).to(x.dtype)
        return y if self.linear.bias is None else y + self.linear.bias
