"""wrong: leaves out the input embedding, which a step hardly reads
points: 1
message: read and not those held
"""
import torch
from transformers import AutoModelForCausalLM


def held(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return model, sum(weight.numel() for weight in model.parameters())


def max_users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes):
    model, weights = held(config)
    if not config.tie_word_embeddings:
        weights -= model.get_input_embeddings().weight.numel()
    per_user = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * bytes_per_kv * context
    free = memory_bytes - reserve_bytes - weights * bytes_per_weight
    return max(0, int(free // per_user))
