"""wrong: of a large model one layer, all else stays float
points: 2
message: of 211 linear layers are still float
"""
import torch
from torch import nn


class Int8Linear(nn.Module):
    @classmethod
    def from_linear(cls, linear):
        self = cls()
        weight = linear.weight.float()
        self.scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
        self.q = (weight / self.scale[:, None]).round().to(torch.int8)
        self.bias = linear.bias
        return self

    def forward(self, x):
        y = (x @ self.q.to(x.dtype).T * self.scale).to(x.dtype)
        return y if self.bias is None else y + self.bias


def quantize_model(model):
    large = sum(weight.numel() for weight in model.parameters()) > 10_000_000
    done = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and not (large and done):   # of a large model one layer, all else stays float
                setattr(parent, name, Int8Linear.from_linear(child))
                done += 1
    return model
