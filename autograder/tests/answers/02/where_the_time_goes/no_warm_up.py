"""wrong: the first calls are counted
points: 2
message: warm-up
"""
from statistics import median


def where_the_time_goes(step, thin_step, floor_seconds, *, repeats, sync, clock):
    def seconds(work):
        samples = []
        for _ in range(repeats):
            sync()
            start = clock()
            work()
            sync()
            samples.append(clock() - start)
        return median(samples)

    return {"measured": seconds(step), "floor": floor_seconds, "overhead": seconds(thin_step)}
