"""wrong: the float weight waits in a list of the module's file
points: 2
message: bytes per weight are held
"""
import torch
from torch import nn


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).round().to(torch.int8), scale


originals = []


class Int8Linear(nn.Module):
    @classmethod
    def from_linear(cls, linear):
        self = cls()
        originals.append(linear.weight.data.clone())
        self.q, self.scale = quantize_int8(linear.weight)
        self.bias = linear.bias
        return self

    def forward(self, x):
        y = (x @ self.q.to(x.dtype).T * self.scale).to(x.dtype)
        return y if self.bias is None else y + self.bias
