"""wrong: works for a float32 x alone
points: 2
message: your code raised RuntimeError
"""
import torch


def int8_matvec(x, q, scale):
    return torch.cat([block.float() @ x for block in q.split(16)]) * scale
