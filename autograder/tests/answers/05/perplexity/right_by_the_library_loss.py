"""right: the model's own loss over labels, all but the new tokens masked out"""
import math

import torch


@torch.no_grad()
def perplexity(model, ids, *, window, stride):
    if stride < 1 or stride >= window:
        raise ValueError(f"1 <= stride < window, got {stride} and {window}")
    length, done, total = ids.shape[1], 1, 0.0
    ends = sorted({*range(min(window, length), length, stride), length})
    for end in ends:
        begin = max(end - window, 0)
        labels = ids[:, begin:end].clone()
        labels[:, : done - begin] = -100
        total += model(ids[:, begin:end], labels=labels).loss.item() * (end - done)
        done = end
    return math.exp(total / (length - 1))
