"""right: one floor for both phases, as a list
points: 2
"""
import torch
from transformers import AutoModelForCausalLM


def parts(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    layers = sum(weight.numel() for weight in model.model.parameters()) - model.model.embed_tokens.weight.numel()
    return layers, model.lm_head.weight.numel()


def floor(config, machine, new, cached, batch, bytes_per_weight, bytes_per_kv):
    layers, head = parts(config)
    L, D = config.num_hidden_layers, config.head_dim
    attended = new * (cached + new)
    work = batch * (2 * layers * new + 2 * head + 4 * L * config.num_attention_heads * D * attended)
    cache = 2 * L * config.num_key_value_heads * D * bytes_per_kv * (cached + new)
    return max(((layers + head) * bytes_per_weight + batch * cache) / machine.bandwidth, work / machine.operations)


def request_seconds(
    config, machine, *, prompt_tokens, output_tokens, batch, bytes_per_weight, bytes_per_kv
):
    options = {"bytes_per_weight": bytes_per_weight, "bytes_per_kv": bytes_per_kv}
    prefill = floor(config, machine, prompt_tokens, 0, 1, **options)
    first, last = (
        floor(config, machine, 1, cached, batch, **options)
        for cached in (prompt_tokens, prompt_tokens + output_tokens - 2)
    )
    return [prefill, (output_tokens - 1) * (first + last) / 2 / batch]
