"""wrong: overhead as measured - floor
points: 1
message: measured - floor
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
    return {"measured": measured, "floor": floor_seconds, "overhead": measured - floor_seconds}
