"""wrong: never, whatever the context
points: 0
message: None means never
"""
def crossover_batch(config, machine, *, context, bytes_per_weight, bytes_per_kv):
    return None
