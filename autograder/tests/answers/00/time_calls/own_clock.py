"""wrong: reads a clock of its own
points: 2
message: the clock you were given was never read
"""

import time


def time_calls(work, *, warmup, repeats, sync, clock):
    for _ in range(warmup):
        work()
    samples = []
    for _ in range(repeats):
        sync()
        start = time.perf_counter()
        work()
        sync()
        samples.append(time.perf_counter() - start)
    return samples
