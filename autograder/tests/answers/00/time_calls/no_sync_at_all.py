"""wrong: never waits
points: 3
message: sync() was never called
"""


def time_calls(work, *, warmup, repeats, sync, clock):
    for _ in range(warmup):
        work()
    samples = []
    for _ in range(repeats):
        start = clock()
        work()
        samples.append(clock() - start)
    return samples
