"""wrong: the text is cut into pieces that do not overlap
points: 2
message: side by side
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    N, losses = ids.shape[1], []
    for start in range(0, N - 1, window):
        piece = ids[:, start : start + window]
        with torch.inference_mode():
            logits = model(piece).logits[0, :-1].float()
        losses.append(torch.nn.functional.cross_entropy(logits, piece[0, 1:], reduction="none"))
    return torch.cat(losses).mean().exp().item()
