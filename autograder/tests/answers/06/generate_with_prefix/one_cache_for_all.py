"""wrong: the newest request's cache is kept and cut back by length, whoever's tokens it holds
points: 3
message: first_logits are off
"""
import torch

from autograder import lab

newest = {}


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    found = min(prefix_cache.match(prompt).get_seq_length(), len(prompt) - 1)
    cache = newest.get("cache") if found else lab.new_cache(model)
    if cache.get_seq_length() > found:
        cache.crop(found - cache.get_seq_length())
    logits = lab.forward(model, prompt_ids[:, cache.get_seq_length() :], cache)[0, -1]
    newest["cache"] = cache
    prefix_cache.insert(prompt, cache)
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    return tokens, first
