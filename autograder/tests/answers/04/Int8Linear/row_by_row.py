"""wrong: 256 tokens are 256 products of one, each of which unpacks the weight again
points: 3
speed: none
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
        flat = x.reshape(-1, x.shape[-1])
        rows = [torch.cat([block.float() @ row.float() for block in self.q.split(64)]) for row in flat]
        y = (torch.stack(rows) * self.scale).to(x.dtype).reshape(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias
