"""wrong: the cache at the size of a weight
points: 2
message: cache at bytes_per_weight
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def decode_weight_bytes(config, bytes_per_weight):
    E, D = config.hidden_size, head_dim_of(config)
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    return (config.num_hidden_layers * layer + config.vocab_size * E) * bytes_per_weight


def decode_floor_seconds(config, machine, *, context, batch, bytes_per_weight, bytes_per_kv):
    L, D = config.num_hidden_layers, head_dim_of(config)
    weights = decode_weight_bytes(config, 1)
    kept = 2 * L * config.num_key_value_heads * D * context
    attended = 4 * L * config.num_attention_heads * D * context
    seconds = {
        "memory": (weights * bytes_per_weight + batch * kept * bytes_per_weight) / machine.bandwidth,
        "arithmetic": (2 * weights + attended) * batch / machine.operations,
    }
    return sorted(seconds.values())[-1]
