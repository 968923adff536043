"""wrong: takes the last reply token for cached, and feeds the new message alone
points: 2
message: never fed
"""
import torch

from autograder import lab


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    ids, reply = history_ids, []
    if cache is None:
        cache = lab.new_cache(model)
    else:
        ids = history_ids[:, cache.get_seq_length() + 1 :]
    for _ in range(reply_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        reply.append(ids)
    return torch.cat(reply, dim=1), cache
