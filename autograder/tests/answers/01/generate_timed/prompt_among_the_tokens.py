"""wrong: returns the whole sequence
points: 5
message: tokens holds the prompt too
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache, ids, token_times = lab.new_cache(model), prompt_ids, []
    sequence = prompt_ids
    sync()
    sent = clock()
    for _ in range(new_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        sequence = torch.cat([sequence, ids], dim=1)
        sync()
        token_times.append(clock())
    return sequence[0].tolist(), sent, token_times
