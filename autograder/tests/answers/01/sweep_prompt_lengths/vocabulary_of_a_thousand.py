"""wrong: ids below 1000, whatever the vocabulary
points: 4
message: draw from all
"""
from statistics import median

import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    result = {}
    for length in lengths:
        rows = []
        for _ in range(repeats + 1):
            _, sent, times = generate(torch.randint(1000, (1, length), generator=rng), new_tokens)
            rows.append((times[0] - sent, (times[-1] - times[0]) / (len(times) - 1)))
        ttfts, tpots = zip(*rows[1:])
        result[length] = (median(ttfts), median(tpots))
    return result
