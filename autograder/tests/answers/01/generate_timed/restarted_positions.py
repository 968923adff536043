"""wrong: every decode step says it is at position 0
points: 5
message: those before are right
"""
import torch
from transformers import DynamicCache


@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    cache, ids, tokens, token_times = DynamicCache(), prompt_ids, [], []
    sync()
    sent = clock()
    for _ in range(new_tokens):
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        output = model(ids, cache=cache, position_ids=positions, use_cache=True, logits_to_keep=1)
        ids = output.logits[:, -1].argmax(-1, keepdim=True)
        tokens.append(ids.item())
        sync()
        token_times.append(clock())
    return tokens, sent, token_times
