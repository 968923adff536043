"""wrong: an odd width ends in torch's own error
points: 2
message: must match the size
"""
import torch


def pack_int4(q):
    return q[:, 0::2] | q[:, 1::2] << 4


def unpack_int4(packed, columns):
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)[:, :columns]
