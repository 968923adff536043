"""wrong: one more forward at the end of each turn, only to fill the cache
points: 3
message: nobody reads
"""
import torch

from autograder import lab


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    cache = lab.new_cache(model) if cache is None else cache
    logits = lab.forward(model, history_ids[:, cache.get_seq_length() :], cache)
    reply = []
    for _ in range(reply_tokens):
        reply.append(logits[:, -1].argmax(-1, keepdim=True))
        logits = lab.forward(model, reply[-1], cache)
    return torch.cat(reply, dim=1), cache
