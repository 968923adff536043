"""wrong: the head is applied to every token of the prompt
points: 5
message: rows entered the head
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache, ids, tokens, token_times = lab.new_cache(model), prompt_ids, [], []
    sync()
    sent = clock()
    for _ in range(new_tokens):
        logits = lab.forward(model, ids, cache, keep=0)
        ids = logits[:, -1].argmax(-1, keepdim=True)
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
