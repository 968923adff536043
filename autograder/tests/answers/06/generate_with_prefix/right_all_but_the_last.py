"""right: asks for all but the last token, so that one is always left to forward"""
import torch

from autograder import lab


def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    prompt = prompt_ids.flatten().tolist()
    cache = prefix_cache.match(prompt[:-1])
    ids, out = prompt_ids[:, int(cache.get_seq_length()) :], []
    with torch.no_grad():
        for step in range(new_tokens):
            logits = lab.forward(model, ids, cache)  # [1, 1, V]
            if step == 0:
                prefix_cache.insert(prompt, cache)
                first_logits = logits[0, 0]
            ids = logits.argmax(-1)
            out.append(int(ids))
    return out, first_logits
