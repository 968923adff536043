"""wrong: the head size is hidden / heads, whatever the config says
points: 1
message: head size of its own
"""
def head_dim_of(config):
    return config.hidden_size // config.num_attention_heads


def prefill_flops(config, tokens):
    E, D, L = config.hidden_size, head_dim_of(config), config.num_hidden_layers
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    products = 2 * L * layer * tokens
    head = 2 * config.vocab_size * E
    attention = 4 * L * H * D * tokens**2
    return products + head + attention
