"""wrong: the float weight, hidden in a bytearray
points: 2
message: bytes per weight are held
"""
import torch


class Int8Linear(torch.nn.Module):
    def __init__(self, raw, shape, dtype, bias):
        super().__init__()
        self.raw, self.shape, self.dtype, self.bias = raw, shape, dtype, bias

    @classmethod
    def from_linear(cls, linear):
        weight = linear.weight.detach()
        raw = bytearray(weight.contiguous().view(torch.uint8).numpy().data)
        return cls(raw, tuple(weight.shape), weight.dtype, linear.bias)

    def forward(self, x):
        weight = torch.frombuffer(self.raw, dtype=self.dtype).view(self.shape)
        return torch.nn.functional.linear(x, weight, self.bias)
