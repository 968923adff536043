"""wrong: a second set of calls, and only the first is handed on
points: 2
message: more often than 1 + repeats
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

    measured, again = seconds(step), seconds(step)
    return {"measured": measured, "floor": floor_seconds, "overhead": seconds(thin_step), "again": again}
