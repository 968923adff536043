"""wrong: packs neighbours, unpacks all low nibbles before all high ones
points: 1
message: neighbours
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    return q[:, 0::2] | q[:, 1::2] << 4


def unpack_int4(packed, columns):
    return torch.cat([packed & 15, packed >> 4], dim=1)[:, :columns]
