"""wrong: the smallest and the largest ratio
points: 1
message: the smallest and the largest ratio
"""


def ratio_interval(ratios, *, confidence, rng):
    return min(ratios), max(ratios)
