"""wrong: a head that is the embedding is counted as a second table
points: 1
message: counted twice
"""
import torch
from transformers import AutoModelForCausalLM


def held(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return model, sum(weight.numel() for weight in model.parameters())


def max_users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes):
    _, weights = held(config)
    if config.tie_word_embeddings:
        weights += config.vocab_size * config.hidden_size
    per_user = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * bytes_per_kv * context
    return max(0, int((memory_bytes - reserve_bytes - weights * bytes_per_weight) // per_user))
