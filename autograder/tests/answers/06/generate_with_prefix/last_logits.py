"""wrong: the logits of the last token instead of the first
points: 2
message: first_logits are off
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    cache = prefix_cache.match(prompt)
    if cache.get_seq_length() == len(prompt):
        cache.crop(-1)
    logits = lab.forward(model, prompt_ids[:, cache.get_seq_length() :], cache)[0, -1]
    prefix_cache.insert(prompt, cache)
    tokens = [logits.argmax().item()]
    while len(tokens) < new_tokens:
        logits = lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1]
        tokens.append(logits.argmax().item())
    return tokens, logits
