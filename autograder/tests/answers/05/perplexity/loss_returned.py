"""wrong: the mean loss, without exp
points: 2
message: exp
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
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
            return torch.cat(losses).mean().item()
        end = min(end + stride, N)
