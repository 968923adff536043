"""wrong: every window scores all its tokens, and the sum is shared among N - 1
points: 3
message: twice
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    N, total = ids.shape[1], 0.0
    end = min(window, N)
    while True:
        start = max(0, end - window)
        with torch.inference_mode():
            logits = model(ids[:, start:end]).logits[0, :-1].float()
        total += torch.nn.functional.cross_entropy(logits, ids[0, start + 1 : end], reduction="sum").double()
        if end == N:
            return (total / (N - 1)).exp().item()
        end = min(end + stride, N)
