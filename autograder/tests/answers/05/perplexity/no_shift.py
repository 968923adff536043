"""wrong: the logits of a token are held against that token itself
points: 2
message: itself
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    N, scored, total = ids.shape[1], 0, 0.0
    end = min(window, N)
    while True:
        start = max(0, end - window)
        with torch.inference_mode():
            log_p = model(ids[:, start:end]).logits[0].float().log_softmax(-1)
        first = max(scored, 1) - start
        total -= log_p.gather(1, ids[0, start:end, None])[first:].sum().item()
        scored = end
        if end == N:
            return float(torch.tensor(total / (N - 1)).exp())
        end = min(end + stride, N)
