"""right: one resample at a time, and the sorted medians counted off
points: 4
"""

import torch


def ratio_interval(ratios, *, confidence, rng):
    ratios = torch.tensor(ratios)
    medians = []
    for _ in range(600):
        picks = torch.randint(0, len(ratios), (len(ratios),), generator=rng)
        medians.append(ratios[picks].median().item())
    medians.sort()
    left_out = round(len(medians) * (1 - confidence) / 2)
    return medians[left_out], medians[-1 - left_out]
