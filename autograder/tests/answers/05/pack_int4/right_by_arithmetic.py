"""right: multiplies and divides instead of shifting, and writes into place"""
import torch


def pack_int4(q):
    rows, columns = q.shape
    packed = torch.zeros(rows, (columns + 1) // 2, dtype=torch.uint8, device=q.device)
    packed += q[:, 0::2]
    packed[:, : columns // 2] += 16 * q[:, 1::2]
    return packed


def unpack_int4(packed, columns):
    q = torch.empty(packed.shape[0], columns, dtype=torch.uint8, device=packed.device)
    q[:, 0::2] = packed % 16
    q[:, 1::2] = (packed // 16)[:, : columns // 2]
    return q
