"""wrong: sent is read while somebody else's work is still queued
points: 5
message: earlier work was still queued
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    sent = clock()
    cache, ids, tokens, token_times = lab.new_cache(model), prompt_ids, [], []
    for _ in range(new_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
