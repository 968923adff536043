"""wrong: the numbers that came in are shifted in place
points: 1
message: has changed
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    q[:, 1::2] <<= 4
    return q[:, 0::2] | q[:, 1::2]


def unpack_int4(packed, columns):
    low = packed & 15
    packed >>= 4
    return torch.stack([low, packed], dim=-1).flatten(1)[:, :columns]
