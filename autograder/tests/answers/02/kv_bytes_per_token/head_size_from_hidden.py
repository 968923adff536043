"""wrong: the head size is hidden / heads, whatever the config says
points: 1
message: head size of its own
"""
def head_dim_of(config):
    return config.hidden_size // config.num_attention_heads


def kv_bytes_per_token(config, bytes_per_kv):
    return 2 * config.num_hidden_layers * config.num_key_value_heads * head_dim_of(config) * bytes_per_kv
