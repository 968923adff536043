"""wrong: the factor 2 is missing
points: 0
message: keys and values
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def kv_bytes_per_token(config, bytes_per_kv):
    return config.num_hidden_layers * config.num_key_value_heads * head_dim_of(config) * bytes_per_kv
