"""right: a whole hit forwards its last block again, by the model's own call"""
import inspect

import torch


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    tokens = prompt_ids.squeeze(0).tolist()
    cache = prefix_cache.match(tokens)
    if cache.get_seq_length() >= len(tokens):
        cache.crop(-prefix_cache.block_tokens)
    name = "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"
    ids, new, first = prompt_ids[:, cache.get_seq_length() :], [], None
    while len(new) < new_tokens:
        logits = model(ids, use_cache=True, **{name: cache}).logits[:, -1]  # [1, V]
        if first is None:
            first = logits
            prefix_cache.insert(tokens, cache)
        ids = logits.argmax(-1, keepdim=True)
        new.append(ids.item())
    return new, first
