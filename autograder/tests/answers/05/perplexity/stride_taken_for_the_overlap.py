"""wrong: moves on by window - stride
points: 3
message: overlap
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    step = window - stride
    N, scored, losses = ids.shape[1], 1, []
    end = min(window, N)
    while True:
        start = max(0, end - window)
        with torch.inference_mode():
            logits = model(ids[:, start:end]).logits[0, :-1].float()
        lost = torch.nn.functional.cross_entropy(logits, ids[0, start + 1 : end], reduction="none")
        losses.append(lost[scored - start - 1 :])
        scored = end
        if end == N:
            return torch.cat(losses).mean().exp().item()
        end = min(end + step, N)
