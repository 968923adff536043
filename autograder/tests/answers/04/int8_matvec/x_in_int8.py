"""wrong: x is cut to whole numbers as well
points: 0
message: Only the weight is in int8
"""
import torch


def int8_matvec(x, q, scale):
    whole = x.to(torch.int8).int()
    return torch.cat([block.int() @ whole for block in q.split(16)]) * scale
