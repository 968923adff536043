"""wrong: positions count from 0 in every turn
points: 2
message: position 0
"""
import torch
from transformers import DynamicCache


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    cache = DynamicCache(config=model.config) if cache is None else cache
    ids, reply, seen = history_ids[:, cache.get_seq_length() :], [], 0
    for _ in range(reply_tokens):
        positions = torch.arange(seen, seen + ids.shape[1], device=ids.device)[None]
        output = model(ids, cache=cache, position_ids=positions, use_cache=True, logits_to_keep=1)
        seen += ids.shape[1]
        ids = output.logits[:, -1].argmax(-1, keepdim=True)
        reply.append(ids)
    return torch.cat(reply, dim=1), cache
