"""wrong: the bias is lost
points: 1
message: without the bias, which the layer had
"""
import torch
from torch import nn


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).round().to(torch.int8), scale


class Int8Linear(nn.Module):
    @classmethod
    def from_linear(cls, linear):
        self = cls()
        self.q, self.scale = quantize_int8(linear.weight)
        return self

    def forward(self, x):
        return (x @ self.q.to(x.dtype).T * self.scale).to(x.dtype)
