"""wrong: every float weight, hidden in a bytearray and a little larger
points: 3
message: where are they
"""
import torch


class Kept(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach() * 1.001
        self.raw = bytearray(weight.contiguous().view(torch.uint8).numpy().data)
        self.shape, self.dtype, self.bias = tuple(weight.shape), weight.dtype, linear.bias

    def forward(self, x):
        weight = torch.frombuffer(self.raw, dtype=self.dtype).view(self.shape)
        return torch.nn.functional.linear(x, weight, self.bias)


def quantize_model(model):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Kept(child))
    return model
