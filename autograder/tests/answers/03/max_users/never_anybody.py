"""wrong: says 0 whatever fits
points: 0
message: you gave 0
"""


def max_users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes):
    return 0
