"""right: every vector is counted as well"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def decode_weight_bytes(config, bytes_per_weight):
    E, D, L = config.hidden_size, head_dim_of(config), config.num_hidden_layers
    queries, kv = config.num_attention_heads * D, config.num_key_value_heads * D
    matrices = E * queries + 2 * E * kv + queries * E + 3 * E * config.intermediate_size
    vectors = 2 * E
    if config.model_type == "qwen2":
        vectors += queries + 2 * kv
    if config.model_type == "qwen3":
        vectors += 2 * D
    return float((L * (matrices + vectors) + E + config.vocab_size * E) * bytes_per_weight)
