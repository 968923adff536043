"""wrong: reads the clock while the work is in the queue
points: 3
message: still in the queue
"""

from statistics import median


def seconds_of(work, sync, clock):
    start = clock()
    work()
    return clock() - start


def paired_ratio(baseline, candidate, *, pairs, sync, clock):
    if pairs % 2:
        raise ValueError("pairs must be even")
    a, b = [], []
    for pair in range(pairs):
        sides = [(baseline, a), (candidate, b)]
        for work, samples in sides if pair % 2 == 0 else reversed(sides):
            samples.append(seconds_of(work, sync, clock))
    return median(x / y for x, y in zip(a, b))
