"""wrong: the interval of the mean
points: 2
message: the mean of the ratios
"""

import torch


def ratio_interval(ratios, *, confidence, rng):
    ratios = torch.tensor(ratios, dtype=torch.float64)
    picks = torch.randint(len(ratios), (1000, len(ratios)), generator=rng)

    means = ratios[picks].mean(dim=1)
    tail = (1 - confidence) / 2
    return means.quantile(tail).item(), means.quantile(1 - tail).item()
