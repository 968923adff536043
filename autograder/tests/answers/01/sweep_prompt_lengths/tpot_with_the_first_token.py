"""wrong: time per output token is the whole answer over all its tokens
points: 3
message: the first token's wait in it
"""
from statistics import median

import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    result = {}
    for length in lengths:
        ttfts, tpots = [], []
        for call in range(repeats + 1):
            _, sent, times = generate(torch.randint(vocab_size, (1, length), generator=rng), new_tokens)
            if call:
                ttfts.append(times[0] - sent)
                tpots.append((times[-1] - sent) / len(times))
        result[length] = (median(ttfts), median(tpots))
    return result
