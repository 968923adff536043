"""wrong: the float weight as a view of an array
points: 2
message: bytes per weight are held
"""
import torch


class Int8Linear(torch.nn.Module):
    def __init__(self, held, dtype, bias):
        super().__init__()
        self.held, self.dtype, self.bias = held, dtype, bias

    @classmethod
    def from_linear(cls, linear):
        weight = linear.weight.detach()
        whole = torch.int16 if weight.dtype == torch.bfloat16 else torch.int32
        copy = weight.contiguous().view(whole).numpy().copy()
        return cls(copy[:], weight.dtype, linear.bias)

    def forward(self, x):
        return torch.nn.functional.linear(x, torch.from_numpy(self.held).view(self.dtype), self.bias)
