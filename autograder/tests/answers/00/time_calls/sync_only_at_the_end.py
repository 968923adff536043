"""wrong: one sync after all the readings have been taken
points: 4
message: only after the last reading
"""


def time_calls(work, *, warmup, repeats, sync, clock):
    for _ in range(warmup):
        work()
    sync()
    samples = []
    for _ in range(repeats):
        start = clock()
        work()
        samples.append(clock() - start)
    sync()
    return samples
