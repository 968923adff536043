"""wrong: unpacks through int8, whose shift copies the sign
points: 1
message: sign
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    return q[:, 0::2] | q[:, 1::2] << 4


def unpack_int4(packed, columns):
    signed = packed.view(torch.int8)
    return torch.stack([signed & 15, signed >> 4], dim=-1).flatten(1)[:, :columns].to(torch.uint8)
