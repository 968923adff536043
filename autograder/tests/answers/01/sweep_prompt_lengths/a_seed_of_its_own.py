"""wrong: one number from rng, and the prompts from a generator that is always the same
points: 4
message: one in another state others
"""
from statistics import median

import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    torch.rand(1, generator=rng)
    mine = torch.Generator().manual_seed(0)
    result = {}
    for length in lengths:
        rows = []
        for _ in range(repeats + 1):
            _, sent, times = generate(torch.randint(vocab_size, (1, length), generator=mine), new_tokens)
            rows.append((times[0] - sent, (times[-1] - times[0]) / (len(times) - 1)))
        ttfts, tpots = zip(*rows[1:])
        result[length] = (median(ttfts), median(tpots))
    return result
