"""wrong: one mean instead of every sample
points: 5
message: the mean of the calls
"""

from statistics import mean


def time_calls(work, *, warmup, repeats, sync, clock):
    for _ in range(warmup):
        work()
    samples = []
    for _ in range(repeats):
        sync()
        start = clock()
        work()
        sync()
        samples.append(clock() - start)
    return mean(samples)
