"""wrong: the slice ends one too early, in the first turn as well
points: 0
message: where does your slice begin
"""
import torch

from autograder import lab


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    cache = lab.new_cache(model) if cache is None else cache
    ids, reply = history_ids[:, cache.get_seq_length() : -1], []
    for _ in range(reply_tokens):
        ids = lab.forward(model, ids, cache)[:, -1].argmax(-1, keepdim=True)
        reply.append(ids)
    return torch.cat(reply, dim=1), cache
