"""right: counts ratios on either side of the median instead of resampling, between two ranks
points: 4
"""

import numpy as np
from scipy.stats import norm


def ratio_interval(ratios, *, confidence, rng):
    ordered = np.sort(ratios)
    n = len(ordered)
    half = norm.ppf(0.5 + confidence / 2) * np.sqrt(n) / 2
    return np.interp([(n - 1) / 2 - half, (n - 1) / 2 + half], np.arange(n), ordered)
