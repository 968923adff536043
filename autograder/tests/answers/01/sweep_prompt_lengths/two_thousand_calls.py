"""wrong: as many calls as the time allows, and nothing measured
points: 0
message: far more often than a sweep needs
"""
import torch


def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):
    for _ in range(2000):
        generate(torch.randint(vocab_size, (1, lengths[0]), generator=rng), 1)
    return {}
