"""wrong: the high nibble is masked and stays where it is
points: 1
message: sixteen times
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    return q[:, 0::2] | q[:, 1::2] << 4


def unpack_int4(packed, columns):
    return torch.stack([packed & 15, packed & 0xF0], dim=-1).flatten(1)[:, :columns]
