"""wrong: the first half of the columns lies in the low nibbles, the second half in the high ones
points: 0
message: neighbours
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    half = q.shape[1] // 2
    return q[:, :half] | q[:, half:] << 4


def unpack_int4(packed, columns):
    return torch.cat([packed & 15, packed >> 4], dim=1)[:, :columns]
