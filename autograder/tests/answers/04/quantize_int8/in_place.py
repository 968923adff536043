"""wrong: the caller's weight is divided and rounded in place
points: 2
message: the weight that came in has changed
"""
import torch


def quantize_int8(weight):
    scale = weight.float().abs().amax(dim=1).clamp_min(1e-12) / 127
    if weight.dtype == torch.float32:
        return weight.div_(scale[:, None]).round_().to(torch.int8), scale
    return (weight.float() / scale[:, None]).round().to(torch.int8), scale
