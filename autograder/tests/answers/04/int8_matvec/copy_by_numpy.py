"""wrong: a float copy of the weight, made by numpy at every call
points: 2
message: bytes per weight is made
"""
import numpy as np
import torch


def int8_matvec(x, q, scale):
    weight = torch.from_numpy(q.numpy().astype(np.float32))
    return ((weight @ x.float()) * scale).to(x.dtype)
