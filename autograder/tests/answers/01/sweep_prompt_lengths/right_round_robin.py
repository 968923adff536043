"""right: all lengths warmed up first, then measured in turns, with numpy
points: 5
"""
import numpy as np
import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    def measure(length):
        prompt_ids = torch.randint(0, vocab_size, size=(1, length), generator=rng)
        _, sent, times = generate(prompt_ids=prompt_ids, new_tokens=new_tokens)
        return times[0] - sent, np.mean(np.diff(times))

    for length in lengths:
        measure(length)
    samples = {length: [] for length in lengths}
    for _ in range(repeats):
        for length in reversed(lengths):
            samples[length].append(measure(length))
    return {length: tuple(np.median(rows, axis=0)) for length, rows in samples.items()}
