"""right: the standard library, whose own error for no samples is a ValueError too
points: 3
"""

import statistics


def median_and_iqr(samples):
    median = statistics.median(samples)
    if len(samples) == 1:
        return median, 0.0
    q1, _, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return [median, q3 - q1]
