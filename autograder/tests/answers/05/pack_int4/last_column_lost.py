"""wrong: an odd width loses its last column
points: 2
message: last column
"""
import torch


def pack_int4(q):
    half = q.shape[1] // 2
    return q[:, 0 : 2 * half : 2] | q[:, 1 : 2 * half : 2] << 4


def unpack_int4(packed, columns):
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)[:, :columns]
