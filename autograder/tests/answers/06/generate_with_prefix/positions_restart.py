"""wrong: the suffix is numbered from 0
points: 2
message: starts at position 0
"""
import inspect

import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    cache = prefix_cache.match(prompt)
    if cache.get_seq_length() == len(prompt):
        cache.crop(-1)
    suffix = prompt_ids[:, cache.get_seq_length() :]
    positions = torch.arange(suffix.shape[1])[None]
    keyword = {"cache": cache} if "cache" in inspect.signature(type(model).forward).parameters else {"past_key_values": cache}
    logits = model(suffix, position_ids=positions, use_cache=True, logits_to_keep=1, **keyword).logits[0, -1]
    prefix_cache.insert(prompt, cache)
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    return tokens, first
