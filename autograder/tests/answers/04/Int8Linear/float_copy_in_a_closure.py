"""wrong: a function that closes over the float layer
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
    @classmethod
    def from_linear(cls, linear):
        self = cls()
        q, scale = quantize_int8(linear.weight)
        self.fallback = lambda x: linear(x)

        def product(x):
            y = (x @ q.to(x.dtype).T * scale).to(x.dtype)
            return y if linear.bias is None else y + linear.bias

        self.product = product
        return self

    def forward(self, x):
        return self.product(x)
