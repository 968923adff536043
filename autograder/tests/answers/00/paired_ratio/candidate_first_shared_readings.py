"""right: candidate first, one reading between two calls, after a warm-up nobody asked for
points: 5
"""

import torch


def paired_ratio(baseline, candidate, *, pairs, sync, clock):
    if pairs % 2 != 0:
        raise ValueError(f"an even number of pairs, please, not {pairs}")
    baseline(), candidate()
    sync()
    last = clock()
    seconds = torch.empty(pairs, 2, dtype=torch.float64)
    for pair in range(pairs):
        for side in (1, 0) if pair % 2 == 0 else (0, 1):
            (baseline, candidate)[side]()
            sync()
            now = clock()
            seconds[pair, side] = now - last
            last = now
    return (seconds[:, 0] / seconds[:, 1]).quantile(0.5)
