"""wrong: candidate over baseline
points: 3
message: upside down
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
        sides = [(baseline, a), (candidate, b)]
        for work, samples in sides if pair % 2 == 0 else reversed(sides):
            samples.append(seconds_of(work, sync, clock))
    return median(y / x for x, y in zip(a, b))
