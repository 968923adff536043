"""wrong: stops at an end-of-sequence token
points: 2
message: at an end-of-sequence token
"""
import torch

from autograder import lab


def chat_turn(model, cache, history_ids, reply_tokens):
    cache = lab.new_cache(model) if cache is None else cache
    ids = history_ids[:, cache.get_seq_length() :]
    reply = []
    with torch.inference_mode():
        for _ in range(reply_tokens):
            ids = lab.forward(model, ids, cache)[:, -1].argmax(dim=-1, keepdim=True)
            reply.append(ids)
            if ids.item() == model.config.eos_token_id:      # the text says: no stop at end-of-sequence
                break
    return torch.cat(reply, dim=1), cache
