"""wrong: the clock is read when the work has been asked for, not when it is done
points: 4
message: what it costs to ask for the work
"""


def time_calls(work, *, warmup, repeats, sync, clock):
    for _ in range(warmup):
        work()
    samples = []
    for _ in range(repeats):
        sync()
        start = clock()
        work()
        stop = clock()
        samples.append(stop - start)
    return samples
