"""wrong: one synchronised reading around all calls, shared out evenly
points: 3
message: one reading for several calls
"""


def time_calls(work, *, warmup, repeats, sync, clock):
    for _ in range(warmup):
        work()
    sync()
    start = clock()
    for _ in range(repeats):
        work()
    sync()
    each = (clock() - start) / repeats
    return [each] * repeats
