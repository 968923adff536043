"""wrong: the first calls are counted, there is no warm-up
points: 4
message: without a warm-up
"""


def time_calls(work, *, warmup, repeats, sync, clock):
    samples = []
    for _ in range(repeats):
        sync()
        start = clock()
        work()
        sync()
        samples.append(clock() - start)
    return samples
