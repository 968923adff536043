"""wrong: a float32 x is scaled in place
points: 2
message: have changed
"""
import torch


def int8_matvec(x, q, scale):
    x = x.float().mul_(2)
    return torch.cat([block.float() @ x for block in q.split(16)]) * scale / 2
