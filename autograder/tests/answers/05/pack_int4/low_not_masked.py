"""wrong: the low nibble comes back with the high one on top
points: 1
message: whole byte
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    return q[:, 0::2] | q[:, 1::2] << 4


def unpack_int4(packed, columns):
    return torch.stack([packed, packed >> 4], dim=-1).flatten(1)[:, :columns]
