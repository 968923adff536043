"""wrong: the new token is counted once more
points: 3
message: the new one included
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def decode_weight_bytes(config, bytes_per_weight):
    E, D = config.hidden_size, head_dim_of(config)
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    return (config.num_hidden_layers * layer + config.vocab_size * E) * bytes_per_weight


def kv_bytes_per_token(config, bytes_per_kv):
    return 2 * config.num_hidden_layers * config.num_key_value_heads * head_dim_of(config) * bytes_per_kv


def decode_floor_seconds(config, machine, *, context, batch, bytes_per_weight, bytes_per_kv):
    context += 1
    cache = kv_bytes_per_token(config, bytes_per_kv) * context
    read = decode_weight_bytes(config, bytes_per_weight) + batch * cache
    attention = 4 * config.num_hidden_layers * config.num_attention_heads * head_dim_of(config) * context
    operations = batch * (2 * decode_weight_bytes(config, 1) + attention)
    return max(read / machine.bandwidth, operations / machine.operations)
