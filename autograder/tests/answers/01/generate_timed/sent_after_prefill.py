"""wrong: the request is said to be sent when its prefill is over
points: 5
message: after the first forward had begun
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache = lab.new_cache(model)
    ids = lab.forward(model, prompt_ids, cache)[:, -1].argmax(-1, keepdim=True)
    sync()
    sent = clock()
    tokens, token_times = [ids.item()], [sent]
    for _ in range(new_tokens - 1):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
