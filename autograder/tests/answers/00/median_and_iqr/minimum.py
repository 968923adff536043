"""wrong: the fastest sample instead of the median
points: 2
message: the smallest sample
"""

import numpy as np


def median_and_iqr(samples):
    if len(samples) == 0:
        raise ValueError("no samples")
    q1, q3 = np.quantile(samples, [0.25, 0.75])
    return min(samples), q3 - q1
