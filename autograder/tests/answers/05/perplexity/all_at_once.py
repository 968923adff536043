"""wrong: one forward over the whole text, whatever the window
points: 3
message: at once
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    with torch.inference_mode():
        logits = model(ids).logits[0, :-1].float()
    return torch.nn.functional.cross_entropy(logits, ids[0, 1:]).exp().item()
