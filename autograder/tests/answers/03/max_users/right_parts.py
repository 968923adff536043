"""right: three parts of a model on the meta device, a float that is whole
points: 3
"""
import numpy as np
import torch
from transformers import AutoModelForCausalLM


def max_users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    weights = sum(w.numel() for w in model.model.layers.parameters()) + model.model.norm.weight.numel()
    weights += table.numel() if head is table else table.numel() + head.numel()
    numbers = 2 * len(model.model.layers) * config.num_key_value_heads * config.head_dim * context
    room = memory_bytes - reserve_bytes - weights * bytes_per_weight
    return np.floor(max(room, 0) / (numbers * bytes_per_kv))
