"""wrong: leaves out the input embedding and takes hidden size over heads for a head's size
points: 1
message: the input embedding lies there, too. And: the size of a head
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
    size = config.hidden_size // config.num_attention_heads
    per_user = 2 * config.num_hidden_layers * config.num_key_value_heads * size * bytes_per_kv * context
    free = memory_bytes - reserve_bytes - weights * bytes_per_weight
    return max(0, int(free // per_user))
