"""wrong: the baseline goes first in every pair
points: 4
message: the same side went first
"""

from statistics import median


def seconds_of(work, sync, clock):
    sync()
    start = clock()
    work()
    sync()
    return clock() - start


def paired_ratio(baseline, candidate, *, pairs, sync, clock):
    if pairs % 2:
        raise ValueError("pairs must be even")
    a, b = [], []
    for pair in range(pairs):
        a.append(seconds_of(baseline, sync, clock))
        b.append(seconds_of(candidate, sync, clock))
    return median(x / y for x, y in zip(a, b))
