"""wrong: the clock starts while the warm-up is still in the queue
points: 5
message: when you started the clock
"""


def time_calls(work, *, warmup, repeats, sync, clock):
    for _ in range(warmup):
        work()
    samples = []
    for _ in range(repeats):
        start = clock()
        work()
        sync()
        samples.append(clock() - start)
    return samples
