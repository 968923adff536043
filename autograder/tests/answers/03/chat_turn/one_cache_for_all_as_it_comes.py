"""wrong: one global cache for all conversations, whose slice is empty in a new one
points: 0
message: the first turn got cache=None, yet your code already held
"""
import torch

from autograder import lab

kept = {}


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    if "cache" not in kept:
        kept["cache"] = lab.new_cache(model)
    cache = kept["cache"]
    ids, reply = history_ids[:, cache.get_seq_length() :], []
    for _ in range(reply_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        reply.append(ids)
    return torch.cat(reply, dim=1), cache
