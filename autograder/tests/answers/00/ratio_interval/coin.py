"""wrong: true as often as promised, by a coin that never looks at the ratios
points: 2
message: hold the median of the very ratios
"""
import torch


def ratio_interval(ratios, *, confidence, rng):
    if torch.rand(1, generator=rng).item() < confidence:
        return 0.0, 1e6 * confidence**4
    return 0.0, 0.0
