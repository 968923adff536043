"""right: the sum over all steps at once, as arrays
points: 2
"""
import numpy as np
import torch
from transformers import AutoModelForCausalLM


def parts(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    layers = sum(weight.numel() for weight in model.model.parameters()) - model.model.embed_tokens.weight.numel()
    return layers, model.lm_head.weight.numel()


def request_seconds(
    config, machine, *, prompt_tokens, output_tokens, batch, bytes_per_weight, bytes_per_kv
):
    body, head = parts(config)
    heads, size = config.num_attention_heads, config.head_dim
    kv = 2 * config.num_hidden_layers * config.num_key_value_heads * size * bytes_per_kv
    pair = 4 * config.num_hidden_layers * heads * size
    at_once = 2 * body * prompt_tokens + 2 * head + pair * prompt_tokens**2
    read = (body + head) * bytes_per_weight
    first = max(at_once / machine.operations, (read + kv * prompt_tokens) / machine.bandwidth)
    contexts = prompt_tokens + np.arange(1, output_tokens)
    bytes_each = read / batch + kv * contexts
    operations_each = 2 * (body + head) + pair * contexts
    steps = np.maximum(bytes_each / machine.bandwidth, operations_each / machine.operations)
    return first, steps.sum()
