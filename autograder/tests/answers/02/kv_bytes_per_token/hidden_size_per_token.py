"""wrong: a whole hidden state per token for keys and for values
points: 0
message: share
"""
def kv_bytes_per_token(config, bytes_per_kv):
    return 2 * config.num_hidden_layers * config.hidden_size * bytes_per_kv
