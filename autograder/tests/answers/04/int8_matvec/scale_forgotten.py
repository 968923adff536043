"""wrong: the scale is forgotten
points: 0
message: still has its scale to come
"""
import torch


def int8_matvec(x, q, scale):
    return torch.cat([block.float() @ x.float() for block in q.split(16)])
