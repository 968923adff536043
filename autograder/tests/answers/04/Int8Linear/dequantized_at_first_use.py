"""wrong: a float copy is made at first use and kept
points: 2
message: a float copy that was made of them
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
        self.bias, self.weight = linear.bias, None
        return self

    def forward(self, x):
        if self.weight is None:
            self.weight = (self.q.float() * self.scale[:, None]).to(x.dtype)
        return nn.functional.linear(x, self.weight, self.bias)
