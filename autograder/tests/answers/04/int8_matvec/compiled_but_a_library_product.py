"""wrong: compiled, but the product is a library's, which wants a float matrix
points: 2
message: the weight is turned into floats as a whole
speed: none
"""
import torch


@torch.compile(dynamic=False)
def product(x, q, scale):
    return torch.nn.functional.linear(x[None], q.to(x.dtype))[0] * scale


def int8_matvec(x, q, scale):
    return product(x, q, scale)
