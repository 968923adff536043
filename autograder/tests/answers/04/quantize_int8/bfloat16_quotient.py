"""wrong: the quotient is rounded in the weight's own bfloat16, which has no fine steps near 127
points: 2
message: in which dtype was the quotient rounded
"""
import torch


def quantize_int8(weight):
    scale = weight.abs().amax(dim=1).clamp_min(1e-12) / 127
    return (weight / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale.float()
