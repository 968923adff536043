"""wrong: two bytes per cached number, whatever is asked
points: 1
message: whatever bytes_per_kv says
"""


def max_users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes):
    E, V = config.hidden_size, config.vocab_size
    D = config.head_dim
    attention = E * D * (2 * config.num_attention_heads + 2 * config.num_key_value_heads)
    layer = attention + 3 * E * config.intermediate_size + 2 * E
    tables = 1 if config.tie_word_embeddings else 2
    weights = config.num_hidden_layers * layer + tables * V * E + E
    one_token = 2 * config.num_hidden_layers * config.num_key_value_heads * D * 2
    left, users = memory_bytes - reserve_bytes - weights * bytes_per_weight, 0
    while left >= (users + 1) * context * one_token:
        users += 1
    return users
