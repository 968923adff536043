"""wrong: the prefix cache is filled and never asked
points: 2
message: match was never asked
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    cache = lab.new_cache(model)
    logits = lab.forward(model, prompt_ids, cache)[0, -1]
    prefix_cache.insert(prompt_ids[0].tolist(), cache)
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    return tokens, first
