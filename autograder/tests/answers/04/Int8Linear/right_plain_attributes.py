"""right: plain attributes, rows one way and many another
points: 3
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
        self.q, self.scale = quantize_int8(linear.weight.data)
        self.added = None if linear.bias is None else linear.bias.data
        return self

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        if flat.size(0) == 1:
            parts = [flat.float() @ block.float().T for block in self.q.split(16)]
            y = torch.cat(parts, dim=1)
        else:
            y = nn.functional.linear(flat, self.q.to(flat.dtype))
        y = y * self.scale
        if self.added is not None:
            y = y + self.added
        return y.to(x.dtype).reshape(*x.shape[:-1], len(self.scale))
