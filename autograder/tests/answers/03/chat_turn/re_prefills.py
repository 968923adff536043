"""wrong: a new cache every turn, so the whole conversation is prefilled again
points: 3
message: prefilled again
speed: none
"""
import torch

from autograder import lab


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    cache, ids, reply = lab.new_cache(model), history_ids, []
    for _ in range(reply_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        reply.append(ids)
    return torch.cat(reply, dim=1), cache
