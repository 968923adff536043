"""wrong: the mean instead of the median
points: 2
message: the mean
"""

import numpy as np


def median_and_iqr(samples):
    if len(samples) == 0:
        raise ValueError("no samples")
    q1, q3 = np.quantile(samples, [0.25, 0.75])
    return np.mean(samples), q3 - q1
