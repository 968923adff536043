"""wrong: the smallest and the largest resampled median
points: 1
message: holds the true median in
"""

import torch


def ratio_interval(ratios, *, confidence, rng):
    ratios = torch.tensor(ratios, dtype=torch.float64)
    picks = torch.randint(len(ratios), (1000, len(ratios)), generator=rng)

    medians = ratios[picks].quantile(0.5, dim=1)
    return medians.min().item(), medians.max().item()
