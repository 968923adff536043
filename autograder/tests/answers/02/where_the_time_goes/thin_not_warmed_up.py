"""wrong: only the step is warmed up
points: 2
message: thin_step
"""
from statistics import median


def where_the_time_goes(step, thin_step, floor_seconds, *, repeats, sync, clock):
    step()
    samples = {step: [], thin_step: []}
    for _ in range(repeats):
        for work in (step, thin_step):
            sync()
            start = clock()
            work()
            sync()
            samples[work].append(clock() - start)
    return {"measured": median(samples[step]), "floor": floor_seconds, "overhead": median(samples[thin_step])}
