"""wrong: one layer's cache
points: 0
message: every layer
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def kv_bytes_per_token(config, bytes_per_kv):
    return 2 * config.num_key_value_heads * head_dim_of(config) * bytes_per_kv
