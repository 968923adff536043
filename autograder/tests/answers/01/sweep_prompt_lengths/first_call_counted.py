"""wrong: the warm-up call of each length is among the measured ones
points: 2
message: counts the length's first call
"""
from statistics import median

import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    result = {}
    for length in lengths:
        ttfts, tpots = [], []
        for _ in range(repeats + 1):
            _, sent, times = generate(torch.randint(vocab_size, (1, length), generator=rng), new_tokens)
            ttfts.append(times[0] - sent)
            tpots.append((times[-1] - times[0]) / (len(times) - 1))
        result[length] = (median(ttfts), median(tpots))
    return result
