"""right: a loop over rows, a step of one for empty ones
points: 3
"""
import torch


def quantize_int8(weight):
    codes, scales = [], []
    for row in weight.to(torch.float64):
        largest = max(row.max().item(), -row.min().item())
        step = largest / 127 if largest else 1.0
        codes.append(torch.round(row / step).to(torch.int8))
        scales.append(step)
    return torch.stack(codes), torch.tensor(scales, dtype=torch.float32, device=weight.device)
