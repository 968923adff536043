"""wrong: the warm-up calls are timed and returned with the others
points: 4
message: the warm-up calls are among them
"""


def time_calls(work, *, warmup, repeats, sync, clock):
    samples = []
    for _ in range(warmup + repeats):
        sync()
        start = clock()
        work()
        sync()
        samples.append(clock() - start)
    return samples
