"""wrong: the prompt goes in token by token
points: 4
message: can go in at once
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache, tokens, token_times = lab.new_cache(model), [], []
    sync()
    sent = clock()
    for i in range(prompt_ids.shape[1]):
        logits = lab.forward(model, prompt_ids[:, i : i + 1], cache)
    for step in range(new_tokens):
        if step:
            logits = lab.forward(model, ids, cache)
        ids = logits[:, -1].argmax(-1, keepdim=True)
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
