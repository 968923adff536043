"""right: interpolates by hand
points: 3
"""


def quantile(ordered, q):
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def median_and_iqr(samples):
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    return quantile(ordered, 0.5), quantile(ordered, 0.75) - quantile(ordered, 0.25)
