"""wrong: reads the clock while the step is still queued
points: 1
message: still in the queue
"""
from statistics import median


def where_the_time_goes(step, thin_step, floor_seconds, *, repeats, sync, clock):
    def seconds(work):
        work()
        samples = []
        for _ in range(repeats):
            sync()
            start = clock()
            work()
            samples.append(clock() - start)
        return median(samples)

    return {"measured": seconds(step), "floor": floor_seconds, "overhead": seconds(thin_step)}
