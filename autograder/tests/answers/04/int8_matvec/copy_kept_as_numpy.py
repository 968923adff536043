"""wrong: a dequantized copy is kept where torch does not see it
points: 2
message: a copy that is kept is read as well
"""
import functools
import types

import torch

kept = types.SimpleNamespace(copies={})


def int8_matvec(x, q, scale):
    if q.data_ptr() not in kept.copies:
        kept.copies[q.data_ptr()] = q.float().numpy().copy()
    return torch.from_numpy(kept.copies[q.data_ptr()]) @ x.float() * scale
