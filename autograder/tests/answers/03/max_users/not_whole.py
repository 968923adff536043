"""wrong: a fraction of a user
points: 1
message: a whole user
"""
import torch
from transformers import AutoModelForCausalLM


def held(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return model, sum(weight.numel() for weight in model.parameters())


def max_users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes):
    _, weights = held(config)
    per_user = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * bytes_per_kv * context
    return max(0, (memory_bytes - reserve_bytes - weights * bytes_per_weight) / per_user)
