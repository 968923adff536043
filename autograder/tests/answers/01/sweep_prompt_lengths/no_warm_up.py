"""wrong: only the first length is warmed up
points: 4
message: Each length needs its own warm-up
"""
from statistics import median

import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    result = {}
    generate(torch.randint(vocab_size, (1, lengths[0]), generator=rng), new_tokens)
    for length in lengths:
        ttfts, tpots = [], []
        for _ in range(repeats):
            _, sent, times = generate(torch.randint(vocab_size, (1, length), generator=rng), new_tokens)
            ttfts.append(times[0] - sent)
            tpots.append((times[-1] - times[0]) / (len(times) - 1))
        result[length] = (median(ttfts), median(tpots))
    return result
