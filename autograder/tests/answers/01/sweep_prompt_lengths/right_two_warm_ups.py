"""right: two warm-up calls, the second short, and the lab's prompts
points: 5
"""
from statistics import median

from autograder import lab


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    def prompt(length):
        return lab.random_prompt(length, vocab_size=vocab_size, rng=rng)

    result = {}
    for length in lengths:
        generate(prompt(length), new_tokens)
        generate(prompt(length), 2)
        logs = [generate(prompt(length), new_tokens) for _ in range(repeats)]
        result[length] = [
            median(times[0] - sent for _, sent, times in logs),
            median((times[-1] - times[0]) / (len(times) - 1) for _, _, times in logs),
        ]
    return result
