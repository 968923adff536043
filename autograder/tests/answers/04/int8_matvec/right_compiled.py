"""right: an expression that torch.compile turns into one loop
points: 3
"""
import torch


@torch.compile(dynamic=False)
def one_loop(x, q, scale):
    return scale * torch.sum(q.float() * x.float(), dim=1)


def int8_matvec(x, q, scale):
    return one_loop(x, q, scale).to(x.dtype)
