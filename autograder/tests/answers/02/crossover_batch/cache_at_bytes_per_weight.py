"""wrong: the cache at the size of a weight
points: 1
message: cache at bytes_per_weight
"""
import math


def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def decode_weight_bytes(config, bytes_per_weight):
    E, D = config.hidden_size, head_dim_of(config)
    H, K = config.num_attention_heads, config.num_key_value_heads
    layer = 2 * E * H * D + 2 * E * K * D + 3 * E * config.intermediate_size
    return (config.num_hidden_layers * layer + config.vocab_size * E) * bytes_per_weight


def kv_bytes_per_token(config, bytes_per_kv):
    return 2 * config.num_hidden_layers * config.num_key_value_heads * head_dim_of(config) * bytes_per_kv


def crossover_batch(config, machine, *, context, bytes_per_weight, bytes_per_kv):
    attention = 4 * config.num_hidden_layers * config.num_attention_heads * head_dim_of(config) * context
    computing = (2 * decode_weight_bytes(config, 1) + attention) / machine.operations
    reading = kv_bytes_per_token(config, bytes_per_weight) * context / machine.bandwidth
    if computing <= reading:
        return None
    shared = decode_weight_bytes(config, bytes_per_weight) / machine.bandwidth
    return math.ceil(shared / (computing - reading))
