"""wrong: one cache, made when the function is defined, serves every request
points: 3
message: an earlier request
"""
import torch
from transformers import DynamicCache

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock, cache=DynamicCache()):
    ids, tokens, token_times = prompt_ids, [], []
    sync()
    sent = clock()
    for _ in range(new_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
