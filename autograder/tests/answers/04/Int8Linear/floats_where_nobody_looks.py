"""wrong: the float weight in a file that has no name
points: 2
message: int8 takes one
"""
import tempfile

import torch


class Int8Linear(torch.nn.Module):
    def __init__(self, file, shape, dtype, bias):
        super().__init__()
        self.file, self.shape, self.dtype, self.bias = file, shape, dtype, bias

    @classmethod
    def from_linear(cls, linear):
        weight = linear.weight.detach()
        file = tempfile.TemporaryFile()
        file.write(weight.contiguous().view(torch.uint8).numpy().tobytes())
        return cls(file, tuple(weight.shape), weight.dtype, linear.bias)

    def forward(self, x):
        self.file.seek(0)
        weight = torch.frombuffer(bytearray(self.file.read()), dtype=self.dtype).view(self.shape)
        return torch.nn.functional.linear(x, weight, self.bias)
