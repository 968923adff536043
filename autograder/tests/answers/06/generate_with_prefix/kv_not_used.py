"""wrong: match is asked, and what it found is thrown away
points: 2
message: were prefilled, though
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    prefix_cache.match(prompt)
    cache = lab.new_cache(model)
    logits = lab.forward(model, prompt_ids, cache)[0, -1]
    prefix_cache.insert(prompt, cache)
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    return tokens, first
