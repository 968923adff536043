"""right: doubles, then halves the interval"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def decode_weight_bytes(config, bytes_per_weight):
    E, D = config.hidden_size, head_dim_of(config)
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    return (config.num_hidden_layers * layer + config.vocab_size * E) * bytes_per_weight


def kv_bytes_per_token(config, bytes_per_kv):
    return 2 * config.num_hidden_layers * config.num_key_value_heads * head_dim_of(config) * bytes_per_kv


def crossover_batch(config, machine, *, context, bytes_per_weight, bytes_per_kv):
    heads = config.num_hidden_layers * config.num_attention_heads * head_dim_of(config)

    def computes(batch):
        read = decode_weight_bytes(config, bytes_per_weight) + batch * context * kv_bytes_per_token(config, bytes_per_kv)
        operations = batch * (2 * decode_weight_bytes(config, 1) + 4 * heads * context)
        return operations / machine.operations >= read / machine.bandwidth

    low, high = 0, 1
    while not computes(high):
        low, high = high, 2 * high
        if high > 2**40:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if computes(middle) else (middle, high)
    return high
