"""wrong: nothing is ever inserted
points: 2
message: was never inserted
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    cache = prefix_cache.match(prompt_ids[0].tolist())
    if cache.get_seq_length() == prompt_ids.shape[1]:
        cache.crop(-1)
    logits = lab.forward(model, prompt_ids[:, cache.get_seq_length() :], cache)[0, -1]
    first, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens:
        tokens.append(lab.forward(model, torch.tensor([tokens[-1:]]), cache)[0, -1].argmax().item())
    return tokens, first
