"""wrong: rows and columns, and nothing else
points: 1
message: not enough values to unpack
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
        self.bias = linear.bias
        return self

    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(rows, len(self.scale), dtype=x.dtype)
        y[:] = x @ self.q.to(x.dtype).T * self.scale
        return y if self.bias is None else y + self.bias
