"""wrong: the prompt is inserted when the answer is complete
points: 4
message: others waited
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
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    prefix_cache.insert(prompt, cache)
    return tokens, first
