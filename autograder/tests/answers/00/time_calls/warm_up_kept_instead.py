"""wrong: the first samples are kept and the last thrown away
points: 3
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
    return samples[:repeats]
