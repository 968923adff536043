"""wrong: where the ratios lie, not where their median lies
points: 2
message: where single ratios lie
"""

import torch


def ratio_interval(ratios, *, confidence, rng):
    tail = (1 - confidence) / 2
    low, high = torch.tensor(ratios, dtype=torch.float64).quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64))
    return low.item(), high.item()
