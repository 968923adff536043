"""wrong: 95% whatever was asked for
points: 1
message: ignores `confidence`
"""

import torch


def ratio_interval(ratios, *, confidence, rng):
    ratios = torch.tensor(ratios, dtype=torch.float64)
    picks = torch.randint(len(ratios), (1000, len(ratios)), generator=rng)

    medians = ratios[picks].quantile(0.5, dim=1)
    return medians.quantile(0.025).item(), medians.quantile(0.975).item()
