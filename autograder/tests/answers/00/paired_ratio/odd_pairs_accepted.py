"""wrong: any number of pairs will do
points: 4
message: an odd number of pairs
"""

from statistics import median


def seconds_of(work, sync, clock):
    sync()
    start = clock()
    work()
    sync()
    return clock() - start


def paired_ratio(baseline, candidate, *, pairs, sync, clock):
    a, b = [], []
    for pair in range(pairs):
        sides = [(baseline, a), (candidate, b)]
        for work, samples in sides if pair % 2 == 0 else reversed(sides):
            samples.append(seconds_of(work, sync, clock))
    return median(x / y for x, y in zip(a, b))
