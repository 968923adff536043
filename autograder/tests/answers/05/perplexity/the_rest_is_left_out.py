"""wrong: tokens behind the last whole stride are never scored
points: 2
message: in no window
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    N, scored, losses = ids.shape[1], 1, []
    for end in range(min(window, N), N + 1, stride):
        start = max(0, end - window)
        with torch.inference_mode():
            logits = model(ids[:, start:end]).logits[0, :-1].float()
        lost = torch.nn.functional.cross_entropy(logits, ids[0, start + 1 : end], reduction="none")
        losses.append(lost[scored - start - 1 :])
        scored = end
    return torch.cat(losses).mean().exp().item()
