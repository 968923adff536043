"""wrong: remembers the newest conversation's cache and ignores the one it is given
points: 3
message: another conversation
"""
import torch

from autograder import lab

newest = None


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    global newest
    if cache is None:
        newest = lab.new_cache(model)
    ids, reply = history_ids[:, newest.get_seq_length() :], []
    if ids.shape[1] == 0:
        ids = history_ids[:, -1:]
    for _ in range(reply_tokens):
        ids = lab.forward(model, ids, newest)[:, -1].argmax(-1, keepdim=True)
        reply.append(ids)
    return torch.cat(reply, dim=1), newest
