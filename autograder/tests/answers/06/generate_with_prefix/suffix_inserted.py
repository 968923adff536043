"""wrong: only the suffix is inserted
points: 4
message: the end of the prompt
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    cache = prefix_cache.match(prompt)
    if cache.get_seq_length() == len(prompt):
        cache.crop(-1)
    start = cache.get_seq_length()
    logits = lab.forward(model, prompt_ids[:, start:], cache)[0, -1]
    prefix_cache.insert(prompt[start:], cache)
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    return tokens, first
