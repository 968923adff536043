"""wrong: every window scores all its tokens, also those an earlier one has scored
points: 3
message: twice
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    N, losses = ids.shape[1], []
    end = min(window, N)
    while True:
        start = max(0, end - window)
        with torch.inference_mode():
            log_p = model(ids[:, start:end]).logits[0, :-1].float().log_softmax(-1)
        losses.append(-log_p.gather(1, ids[0, start + 1 : end, None])[:, 0])
        if end == N:
            return torch.cat(losses).mean().exp().item()
        end = min(end + stride, N)
