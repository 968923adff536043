"""wrong: no samples give NaN instead of an error
points: 2
message: no samples
"""

import numpy as np


def median_and_iqr(samples):
    if len(samples) == 0:
        return float("nan"), float("nan")
    q1, median, q3 = np.quantile(samples, [0.25, 0.5, 0.75])
    return median, q3 - q1
