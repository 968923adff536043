"""wrong: the whole sequence is fed every step
points: 4
message: the whole sequence every step
speed: none
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    ids, tokens, token_times = prompt_ids, [], []
    sync()
    sent = clock()
    for _ in range(new_tokens):
        next_id = lab.forward(model, ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, next_id], dim=1)
        tokens.append(next_id.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
