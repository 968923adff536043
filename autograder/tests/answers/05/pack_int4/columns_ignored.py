"""wrong: unpacking an odd width gives a column too many
points: 2
message: does the caller know
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    return q[:, 0::2] | q[:, 1::2] << 4


def unpack_int4(packed, columns):
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)
