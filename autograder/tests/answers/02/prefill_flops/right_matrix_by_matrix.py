"""right: a list of matrices, and attention's two products"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def prefill_flops(config, tokens):
    E, D, F = config.hidden_size, head_dim_of(config), config.intermediate_size
    H, K = config.num_attention_heads, config.num_key_value_heads
    total = 2 * 1 * E * config.vocab_size
    for rows, columns in [(H * D, E), (K * D, E), (K * D, E), (E, H * D), (F, E), (F, E), (E, F)]:
        total += config.num_hidden_layers * 2 * tokens * rows * columns
    for inner, outer in [(D, tokens), (tokens, D)]:
        total += config.num_hidden_layers * H * 2 * tokens * inner * outer
    return total
