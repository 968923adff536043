"""wrong: by the names of one family
points: 2
message: their type is the same
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


NAMES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head")


def quantize_model(model):
    for parent in list(model.modules()):
        for name in NAMES:
            if hasattr(parent, name):
                setattr(parent, name, Int8Linear.from_linear(getattr(parent, name)))
    return model
