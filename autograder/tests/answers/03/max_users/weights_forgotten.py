"""wrong: all memory is for the cache
points: 0
message: the weights lie there too
"""


def max_users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes):
    per_user = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * bytes_per_kv * context
    return int((memory_bytes - reserve_bytes) // per_user)
