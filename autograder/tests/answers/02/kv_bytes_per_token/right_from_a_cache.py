"""right: fills a cache with one token and weighs it"""
import torch
from transformers import DynamicCache


def kv_bytes_per_token(config, bytes_per_kv):
    D = getattr(config, "head_dim", None)
    if not D:
        D = config.hidden_size // config.num_attention_heads
    cache = DynamicCache(config=config)
    for layer in range(config.num_hidden_layers):
        cache.update(*torch.zeros(2, 1, config.num_key_value_heads, 1, D), layer)
    return sum(layer.keys.numel() + layer.values.numel() for layer in cache.layers) * bytes_per_kv
