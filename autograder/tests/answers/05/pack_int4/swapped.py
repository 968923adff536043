"""wrong: consistent with itself, but the even column lies in the high half
points: 0
message: swapped
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    return q[:, 0::2] << 4 | q[:, 1::2]


def unpack_int4(packed, columns):
    return torch.stack([packed >> 4, packed & 15], dim=-1).flatten(1)[:, :columns]
