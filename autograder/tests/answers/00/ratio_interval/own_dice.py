"""wrong: draws without the generator it was given
points: 3
message: from `rng`
"""

import torch


def ratio_interval(ratios, *, confidence, rng):
    ratios = torch.tensor(ratios, dtype=torch.float64)
    picks = torch.randint(len(ratios), (1000, len(ratios)))
    medians = ratios[picks].quantile(0.5, dim=1)
    tail = (1 - confidence) / 2
    return medians.quantile(tail).item(), medians.quantile(1 - tail).item()
