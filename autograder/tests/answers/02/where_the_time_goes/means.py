"""wrong: means instead of medians
points: 1
message: mean
"""
from statistics import mean


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
        return mean(samples)

    return {"measured": seconds(step), "floor": floor_seconds, "overhead": seconds(thin_step)}
