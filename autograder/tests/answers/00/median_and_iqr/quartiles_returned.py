"""wrong: the two quartiles instead of their distance
points: 0
message: expected two numbers
"""

import numpy as np


def median_and_iqr(samples):
    if len(samples) == 0:
        raise ValueError("no samples")
    q1, median, q3 = np.quantile(samples, [0.25, 0.5, 0.75])
    return median, (q1, q3)
