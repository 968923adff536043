"""right: over-careful syncs, warm-up calls timed and dropped
points: 6
"""


def seconds_of(work, sync, clock):
    sync()
    sync()
    start = clock()
    work()
    sync()
    sync()
    return clock() - start


def time_calls(work, *, warmup, repeats, sync, clock):
    return [seconds_of(work, sync, clock) for _ in range(warmup + repeats)][warmup:]
