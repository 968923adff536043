"""wrong: the first step attends to the prompt alone, and every other to one token too few
points: 1
message: its own token as well
"""
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
    layers, head = parts(config)
    L, H = config.num_hidden_layers, config.num_attention_heads
    K, D = config.num_key_value_heads, config.head_dim
    weights, row = (layers + head) * bytes_per_weight, 2 * L * K * D * bytes_per_kv
    operations = 2 * (layers * prompt_tokens + head) + 4 * L * H * D * prompt_tokens**2
    prefill = max((weights + row * prompt_tokens) / machine.bandwidth, operations / machine.operations)
    decode = 0.0
    for step in range(output_tokens - 1):
        context = prompt_tokens + step
        moved = weights + batch * row * context
        operations = batch * (2 * (layers + head) + 4 * L * H * D * context)
        decode += max(moved / machine.bandwidth, operations / machine.operations) / batch
    return prefill, decode
