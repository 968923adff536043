"""wrong: the first new token of each later window is not scored
points: 3
message: first new token
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    N, scored, losses = ids.shape[1], 0, []
    end = min(window, N)
    while True:
        start = max(0, end - window)
        new = ids[0, scored:end]
        with torch.inference_mode():
            logits = model(ids[:, start:end]).logits[0, scored - start :].float()
        losses.append(torch.nn.functional.cross_entropy(logits[:-1], new[1:], reduction="none"))
        scored = end
        if end == N:
            return torch.cat(losses).mean().exp().item()
        end = min(end + stride, N)
