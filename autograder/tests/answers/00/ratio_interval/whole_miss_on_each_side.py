"""wrong: leaves out 1 - confidence on either side
points: 2
message: on each side
"""

import torch


def ratio_interval(ratios, *, confidence, rng):
    ratios = torch.tensor(ratios, dtype=torch.float64)
    picks = torch.randint(len(ratios), (1000, len(ratios)), generator=rng)

    medians = ratios[picks].quantile(0.5, dim=1)
    return medians.quantile(1 - confidence).item(), medians.quantile(confidence).item()
