"""wrong: quartiles of another convention, and a crash on one sample
points: 1
message: another convention
"""

import statistics


def median_and_iqr(samples):
    if not samples:
        raise ValueError("no samples")
    if len(samples) == 1:
        return samples[0], samples[0]
    q1, median, q3 = statistics.quantiles(samples, n=4)
    return median, q3 - q1
