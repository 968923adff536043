"""wrong: all calls in one reading, divided by their number
points: 1
message: a mean, not a median
"""
def where_the_time_goes(step, thin_step, floor_seconds, *, repeats, sync, clock):
    def seconds(work):
        work()
        sync()
        start = clock()
        for _ in range(repeats):
            work()
        sync()
        return (clock() - start) / repeats

    return {"measured": seconds(step), "floor": floor_seconds, "overhead": seconds(thin_step)}
