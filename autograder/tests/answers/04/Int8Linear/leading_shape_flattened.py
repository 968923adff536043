"""wrong: the leading shape is flattened and never restored
points: 1
message: y has shape [2, 3, 160]
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
        x = x.reshape(-1, x.shape[-1]) if x.dim() > 2 else x
        y = (x @ self.q.to(x.dtype).T * self.scale).to(x.dtype)
        return y if self.bias is None else y + self.bias
