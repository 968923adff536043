"""wrong: every weight that a decode step reads, times the tokens, and the head once more
points: 3
message: and once more
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def decode_weight_bytes(config, bytes_per_weight):
    E, D = config.hidden_size, head_dim_of(config)
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    return (config.num_hidden_layers * layer + config.vocab_size * E) * bytes_per_weight


def prefill_flops(config, tokens):
    attention = 4 * config.num_hidden_layers * config.num_attention_heads * head_dim_of(config) * tokens**2
    return 2 * decode_weight_bytes(config, 1) * tokens + 2 * config.vocab_size * config.hidden_size + attention
