"""wrong: the last window starts where a further stride would, so it sees less than the others
points: 3
message: last window
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    N, scored, losses = ids.shape[1], 1, []
    for start in range(0, N, stride):
        end = min(start + window, N)
        with torch.inference_mode():
            logits = model(ids[:, start:end]).logits[0, :-1].float()
        lost = torch.nn.functional.cross_entropy(logits, ids[0, start + 1 : end], reduction="none")
        losses.append(lost[scored - start - 1 :])
        scored = end
        if end == N:
            break
    return torch.cat(losses).mean().exp().item()
