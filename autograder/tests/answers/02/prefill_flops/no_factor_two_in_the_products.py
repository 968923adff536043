"""wrong: a multiply-add counts once in the products with weights
points: 0
message: multiply-add
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def prefill_flops(config, tokens):
    E, D, L = config.hidden_size, head_dim_of(config), config.num_hidden_layers
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    products = L * layer * tokens
    head = config.vocab_size * E
    attention = 4 * L * H * D * tokens**2
    return products + head + attention
