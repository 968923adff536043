"""right: builds the model on the meta device and counts"""
import torch
from transformers import AutoModelForCausalLM


def decode_weight_bytes(config, bytes_per_weight):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    table, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    read = sum(weight.numel() for weight in model.parameters())
    return (read if head is table else read - table.numel()) * bytes_per_weight
