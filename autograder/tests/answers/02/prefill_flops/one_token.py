"""wrong: the products are not multiplied by the tokens
points: 0
message: every token
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def prefill_flops(config, tokens):
    E, D, L = config.hidden_size, head_dim_of(config), config.num_hidden_layers
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    products = 2 * L * layer
    head = 2 * config.vocab_size * E
    attention = 4 * L * H * D * tokens**2
    return products + head + attention
