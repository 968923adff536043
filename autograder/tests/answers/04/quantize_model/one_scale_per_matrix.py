"""wrong: one scale per matrix
points: 3
message: each row with its own scale
"""
import torch
from torch import nn


class Int8Linear(nn.Module):
    @classmethod
    def from_linear(cls, linear):
        self = cls()
        weight = linear.weight.float()
        self.scale = (weight.abs().amax() / 127).repeat(len(weight))
        self.q = (weight / self.scale[:, None]).round().to(torch.int8)
        self.bias = linear.bias
        return self

    def forward(self, x):
        y = (x @ self.q.to(x.dtype).T * self.scale).to(x.dtype)
        return y if self.bias is None else y + self.bias


def quantize_model(model):
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Int8Linear.from_linear(child))
    return model
