"""right: numpy, row by row"""
import numpy as np
import torch


def pack_int4(q):
    rows = []
    for row in q.cpu().numpy():
        if len(row) % 2:
            row = np.append(row, np.uint8(0))
        low, high = row.reshape(-1, 2).T
        rows.append(low + high * 16)
    return torch.from_numpy(np.stack(rows).astype(np.uint8))


def unpack_int4(packed, columns):
    values = packed.cpu().numpy()
    return torch.from_numpy(np.repeat(values, 2, axis=1) >> np.resize([0, 4], columns + columns % 2).astype(np.uint8) & 15)[:, :columns]
