"""wrong: a stride below zero is let through
points: 3
message: a ValueError should say
"""
import torch


def perplexity(model, ids, *, window, stride):
    if stride == 0 or stride >= window:                         # -1 is let through
        raise ValueError("stride")
    N, scored, loss = ids.shape[1], 1, 0.0
    ends = [*range(min(window, N), N, stride), N]
    with torch.inference_mode():
        for end in ends:
            start = max(0, end - window)
            logits = model(ids[:, start:end]).logits[0, :-1]
            new = slice(scored - start - 1, None)
            targets = ids[0, start + 1 : end][new]
            loss += torch.nn.functional.cross_entropy(logits[new].double(), targets, reduction="sum").item()
            scored = end
    return float(torch.tensor(loss / (N - 1)).exp())
