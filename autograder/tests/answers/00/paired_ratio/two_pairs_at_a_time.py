"""right: baseline, candidate, candidate, baseline, as often as needed
points: 5
"""

import numpy as np


def paired_ratio(baseline, candidate, *, pairs, sync, clock):
    if pairs % 2:
        raise ValueError("pairs come in twos")

    def timed(work):
        sync()
        start = clock()
        work()
        sync()
        return clock() - start

    ratios = []
    for _ in range(pairs // 2):
        a1, b1, b2, a2 = timed(baseline), timed(candidate), timed(candidate), timed(baseline)
        ratios += [a1 / b1, a2 / b2]
    return np.median(ratios)
