"""wrong: the logits of a whole hit are those of an earlier request
points: 4
message: those of an earlier request
"""
import torch

from autograder import lab

kept = {}


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids[0].tolist()
    cache = prefix_cache.match(prompt)
    if cache.get_seq_length() == len(prompt):
        logits = kept[tuple(prompt)]
    else:
        logits = lab.forward(model, prompt_ids[:, cache.get_seq_length() :], cache)[0, -1]
    kept[tuple(prompt)] = logits
    prefix_cache.insert(prompt, cache)
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    return tokens, first
