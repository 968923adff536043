"""wrong: one prompt per length, sent again and again
points: 4
message: sent more than once
"""
from statistics import median

import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    result = {}
    for length in lengths:
        prompt = torch.randint(vocab_size, (1, length), generator=rng)
        generate(prompt, new_tokens)
        ttfts, tpots = [], []
        for _ in range(repeats):
            _, sent, times = generate(prompt, new_tokens)
            ttfts.append(times[0] - sent)
            tpots.append((times[-1] - times[0]) / (len(times) - 1))
        result[length] = (median(ttfts), median(tpots))
    return result
