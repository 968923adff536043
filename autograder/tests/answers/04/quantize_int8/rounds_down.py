"""wrong: rounded down instead of to the nearest
points: 2
message: rounded down
"""
import torch


def quantize_int8(weight):
    weight = weight.float()
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).floor().clamp(-127, 127).to(torch.int8), scale
