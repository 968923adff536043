"""wrong: stops at the end-of-sequence token
points: 3
message: it stopped at the end-of-sequence token
"""
import torch

from autograder import lab


@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt, T = prompt_ids[0].tolist(), prompt_ids.shape[1]
    cache = prefix_cache.match(prompt)
    if cache.get_seq_length() == T:
        cache.crop(-1)
    logits = lab.forward(model, prompt_ids[:, cache.get_seq_length() :], cache)[0, -1]
    prefix_cache.insert(prompt, cache)
    first_logits, tokens = logits, [logits.argmax().item()]
    while len(tokens) < new_tokens and tokens[-1] != model.config.eos_token_id:
        ids = prompt_ids.new_tensor([tokens[-1:]])
        tokens.append(lab.forward(model, ids, cache)[0, -1].argmax().item())
    return tokens, first_logits
