"""right: numpy's dice, seeded from the generator, tensors returned
points: 4
"""

import numpy as np
import torch


def ratio_interval(ratios, *, confidence, rng):
    seed = int(torch.randint(2**31, (), generator=rng))
    dice = np.random.default_rng(seed)
    medians = np.median(dice.choice(ratios, size=(1000, len(ratios))), axis=1)
    low, high = np.quantile(medians, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return torch.tensor([low, high])
