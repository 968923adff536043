"""wrong: means instead of medians
points: 2
message: one slow call pulls it
"""
import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    result = {}
    for length in lengths:
        rows = []
        for _ in range(repeats + 1):
            _, sent, times = generate(torch.randint(vocab_size, (1, length), generator=rng), new_tokens)
            rows.append((times[0] - sent, (times[-1] - times[0]) / (len(times) - 1)))
        ttfts, tpots = zip(*rows[1:])
        result[length] = (sum(ttfts) / repeats, sum(tpots) / repeats)
    return result
