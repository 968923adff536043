"""wrong: the view of a float copy, found again by its first codes
points: 2
message: bytes per weight stay behind
"""
import numpy as np
import torch

kept = {}


def int8_matvec(x, q, scale):
    place = (q.data_ptr(), tuple(q.shape), bytes(q[0, :16].numpy()))
    if place not in kept:
        if len(kept) > 4:
            kept.clear()
        kept[place] = q.numpy().astype(np.float32)[:]
    return ((torch.from_numpy(kept[place]) @ x.float()) * scale).to(x.dtype)
