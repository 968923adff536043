"""wrong: every resample is a shuffle of the same ratios
points: 1
message: no width
"""

import torch


def ratio_interval(ratios, *, confidence, rng):
    ratios = torch.tensor(ratios, dtype=torch.float64)
    medians = torch.stack([ratios[torch.randperm(len(ratios), generator=rng)].quantile(0.5) for _ in range(50)])
    tail = (1 - confidence) / 2
    return medians.quantile(tail).item(), medians.quantile(1 - tail).item()
