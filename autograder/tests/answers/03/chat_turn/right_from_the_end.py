"""right: the reply filled into a tensor, the missing part found from the end
points: 4
"""
import torch
from transformers import DynamicCache


@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    if cache is None:
        cache = DynamicCache(config=model.config)
    missing = history_ids.shape[1] - cache.get_seq_length()
    step = history_ids[:, -missing:]
    reply_ids = torch.empty(1, reply_tokens, dtype=torch.int64, device=history_ids.device)
    for i in range(reply_tokens):
        logits = model(step, cache=cache, use_cache=True).logits
        reply_ids[0, i] = logits[0, -1].argmax()
        step = reply_ids[:, i : i + 1]
    return reply_ids, cache
