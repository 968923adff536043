"""right: both take turns, with readings on an idle device only"""
def where_the_time_goes(step, thin_step, floor_seconds, *, repeats, sync, clock):
    works = {"measured": step, "overhead": thin_step}
    rounds = []
    for _ in range(repeats + 2):
        taken = {}
        for name, work in works.items():
            sync()
            start = clock()
            work()
            sync()
            taken[name] = clock() - start
        rounds.append(taken)
    answer = {"floor": floor_seconds}
    for name in works:
        samples = sorted(taken[name] for taken in rounds[2:])
        answer[name] = (samples[(repeats - 1) // 2] + samples[repeats // 2]) / 2
    return answer
