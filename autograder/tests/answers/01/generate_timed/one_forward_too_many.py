"""wrong: a last forward whose prediction nobody reads
points: 4
message: prediction is never used
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache, tokens, token_times = lab.new_cache(model), [], []
    sync()
    sent = clock()
    logits = lab.forward(model, prompt_ids, cache)
    for _ in range(new_tokens):
        ids = logits[:, -1].argmax(-1, keepdim=True)
        sync()
        token_times.append(clock())
        tokens.append(ids.item())
        logits = lab.forward(model, ids, cache)
    return tokens, sent, token_times
