"""wrong: operations per byte, as if it were a batch
points: 0
message: operations per byte
"""
import math


def crossover_batch(config, machine, *, context, bytes_per_weight, bytes_per_kv):
    return math.ceil(machine.operations / machine.bandwidth)
