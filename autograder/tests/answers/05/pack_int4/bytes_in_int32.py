"""wrong: the right numbers, four bytes each
points: 1
message: int32
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    q = q.to(torch.int32)
    return q[:, 0::2] | q[:, 1::2] << 4


def unpack_int4(packed, columns):
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(1)[:, :columns]
