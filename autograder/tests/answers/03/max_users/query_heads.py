"""wrong: a cache entry per query head
points: 1
message: query heads
"""
import torch
from transformers import AutoModelForCausalLM


def held(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return model, sum(weight.numel() for weight in model.parameters())


def max_users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes):
    _, weights = held(config)
    heads = config.num_attention_heads
    per_user = 2 * config.num_hidden_layers * heads * config.head_dim * bytes_per_kv * context
    return max(0, int((memory_bytes - reserve_bytes - weights * bytes_per_weight) // per_user))
