"""wrong: every parameter counts, an untied input embedding too
points: 2
message: only looked up
"""
import torch
from transformers import AutoModelForCausalLM


def decode_weight_bytes(config, bytes_per_weight):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return sum(weight.numel() for weight in model.parameters()) * bytes_per_weight
