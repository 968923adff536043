"""wrong: the last token is fed, too, and nobody reads what it predicts
points: 3
message: and no more
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    cache = prefix_cache.match(prompt)
    if cache.get_seq_length() == len(prompt):
        cache.crop(-1)
    first = logits = lab.forward(model, prompt_ids[:, cache.get_seq_length() :], cache)[0, -1]
    prefix_cache.insert(prompt, cache)
    tokens = []
    for _ in range(new_tokens):
        tokens.append(logits.argmax().item())
        logits = lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1]
    return tokens, first
