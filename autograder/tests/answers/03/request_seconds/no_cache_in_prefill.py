"""wrong: the prompt's own keys and values are not read
points: 1
message: own keys and values are among the bytes
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
    prefill = max(weights / machine.bandwidth, operations / machine.operations)
    decode = 0.0
    for step in range(1, output_tokens):
        context = prompt_tokens + step
        moved = weights + batch * row * context
        operations = batch * (2 * (layers + head) + 4 * L * H * D * context)
        decode += max(moved / machine.bandwidth, operations / machine.operations) / batch
    return prefill, decode
