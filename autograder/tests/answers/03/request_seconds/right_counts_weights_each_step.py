"""right: counts the weights again at every step
points: 2
"""
import torch
from transformers import AutoModelForCausalLM


def weights(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    layers = sum(weight.numel() for weight in model.model.parameters()) - model.model.embed_tokens.weight.numel()
    return 0, layers, model.lm_head.weight.numel()


def request_seconds(config, machine, *, prompt_tokens, output_tokens, batch, bytes_per_weight, bytes_per_kv):
    def forward(new, context, requests):
        _, layers, head = weights(config)
        L, H, K, D = config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, config.head_dim
        moved = (layers + head) * bytes_per_weight + requests * context * 2 * L * K * D * bytes_per_kv
        operations = requests * (2 * layers * new + 2 * head + 4 * L * H * D * new * context)
        return max(moved / machine.bandwidth, operations / machine.operations)

    prefill = forward(prompt_tokens, prompt_tokens, 1)
    steps = sum(forward(1, prompt_tokens + i, batch) for i in range(1, output_tokens))
    return prefill, steps / batch
