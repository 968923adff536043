"""wrong: attention is as wide as the hidden state
points: 3
message: hidden size in it
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def prefill_flops(config, tokens):
    E, D, L = config.hidden_size, head_dim_of(config), config.num_hidden_layers
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    products = 2 * L * layer * tokens
    head = 2 * config.vocab_size * E
    attention = 4 * L * E * tokens**2
    return products + head + attention
