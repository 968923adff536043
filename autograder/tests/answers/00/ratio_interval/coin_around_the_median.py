"""wrong: true as often as promised, by a coin: nearly everything, or the sample's median alone
points: 2
message: others far too narrow
"""
from statistics import median

import torch


def ratio_interval(ratios, *, confidence, rng):
    if torch.rand(1, generator=rng).item() < confidence - 0.02:
        return min(ratios), max(ratios) * confidence**2
    return median(ratios), median(ratios)
