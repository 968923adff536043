"""wrong: for a whole hit the last token is fed again, behind its own keys and values
points: 4
message: stands in the cache twice
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    cache = prefix_cache.match(prompt)
    suffix = prompt_ids[:, min(cache.get_seq_length(), len(prompt) - 1) :]
    logits = lab.forward(model, suffix, cache)[0, -1]
    prefix_cache.insert(prompt, cache)
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    return tokens, first
