"""wrong: the reply comes with the history in front
points: 0
message: the history too
"""
import torch

from autograder import lab


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    cache = lab.new_cache(model) if cache is None else cache
    ids = history_ids[:, cache.get_seq_length() :]
    for _ in range(reply_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        history_ids = torch.cat([history_ids, ids], dim=1)
    return history_ids, cache
