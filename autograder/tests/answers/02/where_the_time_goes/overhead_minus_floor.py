"""wrong: the floor is taken off the thin step too
points: 2
message: as measured
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
            sync()
            samples.append(clock() - start)
        return median(samples)

    measured = seconds(step)
    return {"measured": measured, "floor": floor_seconds, "overhead": seconds(thin_step) - floor_seconds}
