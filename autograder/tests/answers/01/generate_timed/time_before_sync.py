"""wrong: the clock is read while the forward is still queued
points: 5
message: still in the queue
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache, ids, tokens, token_times = lab.new_cache(model), prompt_ids, [], []
    sync()
    sent = clock()
    for _ in range(new_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        token_times.append(clock())
        tokens.append(ids.item())
        sync()
    return tokens, sent, token_times
