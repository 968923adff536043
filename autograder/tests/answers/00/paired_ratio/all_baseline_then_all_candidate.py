"""wrong: all of one side, then all of the other
points: 3
message: every call of one side before
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
    a = [seconds_of(baseline, sync, clock) for _ in range(pairs)]
    b = [seconds_of(candidate, sync, clock) for _ in range(pairs)]
    return median(x / y for x, y in zip(a, b))
