"""wrong: rows that make no full block are lost
points: 0
message: Rows are missing
"""
import torch


def int8_matvec(x, q, scale):
    x, blocks = x.float(), q.shape[0] // 128
    y = torch.cat([q[128 * i : 128 * (i + 1)].float() @ x for i in range(blocks)])
    return y * scale[: len(y)]
