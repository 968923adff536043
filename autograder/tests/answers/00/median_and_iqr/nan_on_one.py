"""wrong: not a number for the spread of one sample
points: 2
message: one sample
"""

import numpy as np


def median_and_iqr(samples):
    if len(samples) == 0:
        raise ValueError("no samples")
    q1, q3 = np.quantile(samples, [0.25, 0.75])
    return np.median(samples), q3 - q1 if len(samples) > 1 else float("nan")
