"""wrong: input embedding and head are counted, tied or not
points: 1
message: twice
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def decode_weight_bytes(config, bytes_per_weight):
    E, D = config.hidden_size, head_dim_of(config)
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    return (config.num_hidden_layers * layer + 2 * config.vocab_size * E) * bytes_per_weight
