"""wrong: the token the prefill predicts is thrown away
points: 3
message: the first new token is missing
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache = lab.new_cache(model)
    sync()
    sent = clock()
    ids = lab.forward(model, prompt_ids, cache)[:, -1].argmax(-1, keepdim=True)
    tokens, token_times = [], []
    for _ in range(new_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
