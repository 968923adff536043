"""right: each reading ends one call and starts the next
points: 6
"""

import numpy as np


def time_calls(work, *, warmup, repeats, sync, clock):
    for _ in range(warmup):
        work()
    sync()
    readings = [clock()]
    for _ in range(repeats):
        work()
        sync()
        readings.append(clock())
    return np.diff(readings)
