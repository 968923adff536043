"""wrong: stops at the end-of-sequence token
points: 2
message: end-of-sequence
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
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
        if tokens[-1] == model.config.eos_token_id:
            break
    return tokens, sent, token_times
