"""wrong: the answer to a prompt seen before is taken from memory
points: 3
message: the model was never called
"""
import torch

from autograder import lab

answered = {}


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    key = (tuple(prompt), new_tokens)
    if key in answered:
        return answered[key]
    cache = prefix_cache.match(prompt)
    if cache.get_seq_length() == len(prompt):
        cache.crop(-1)
    logits = lab.forward(model, prompt_ids[:, cache.get_seq_length() :], cache)[0, -1]
    prefix_cache.insert(prompt, cache)
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    answered[key] = tokens, first
    return tokens, first
