"""wrong: keys and values for every query head
points: 1
message: share
"""
def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def kv_bytes_per_token(config, bytes_per_kv):
    return 2 * config.num_hidden_layers * config.num_attention_heads * head_dim_of(config) * bytes_per_kv
