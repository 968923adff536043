"""wrong: consistent with itself, but stores q - 8 in two's complement
points: 0
message: unsigned
"""
import torch


def pack_int4(q):
    if q.shape[1] % 2:
        q = torch.nn.functional.pad(q, (0, 1))
    signed = (q.to(torch.int16) - 8) & 15
    return (signed[:, 0::2] | signed[:, 1::2] << 4).to(torch.uint8)


def unpack_int4(packed, columns):
    wide = packed.to(torch.int16)
    both = torch.stack([wide & 15, wide >> 4], dim=-1).flatten(1)[:, :columns]
    return ((both + 8) & 15).to(torch.uint8)
