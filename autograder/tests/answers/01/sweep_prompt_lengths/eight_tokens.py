"""wrong: eight new tokens, whatever was asked
points: 4
message: where new_tokens=
"""
from statistics import median

import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    result = {}
    for length in lengths:
        rows = []
        for _ in range(repeats + 1):
            _, sent, times = generate(torch.randint(vocab_size, (1, length), generator=rng), 8)
            rows.append((times[0] - sent, (times[-1] - times[0]) / (len(times) - 1)))
        ttfts, tpots = zip(*rows[1:])
        result[length] = (median(ttfts), median(tpots))
    return result
