"""wrong: feeds the whole conversation on top of what the cache holds already
points: 2
message: the whole conversation on top
"""
import torch

from autograder import lab


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    cache = lab.new_cache(model) if cache is None else cache
    ids, reply = history_ids, []
    for _ in range(reply_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        reply.append(ids)
    return torch.cat(reply, dim=1), cache
