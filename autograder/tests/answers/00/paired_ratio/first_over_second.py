"""wrong: the first call of each pair over the second, whichever side went first
points: 3
message: in every other pair the candidate's is on top
"""
from statistics import median


def paired_ratio(baseline, candidate, *, pairs, sync, clock):
    if pairs % 2:
        raise ValueError("an even number of pairs, so that each side goes first equally often")
    ratios = []
    for i in range(pairs):
        took = []
        for work in (baseline, candidate) if i % 2 == 0 else (candidate, baseline):
            sync()
            start = clock()
            work()
            sync()
            took.append(clock() - start)
        ratios.append(took[0] / took[1])
    return median(ratios)
