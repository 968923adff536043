"""wrong: the windows' means are averaged as if each had scored as many tokens
points: 3
message: windows
"""
import torch


def perplexity(model, ids, *, window, stride):
    if not 1 <= stride < window:
        raise ValueError("stride")
    N, scored, means = ids.shape[1], 1, []
    end = min(window, N)
    while True:
        start = max(0, end - window)
        with torch.inference_mode():
            log_p = model(ids[:, start:end]).logits[0, :-1].float().log_softmax(-1)
        lost = -log_p.gather(1, ids[0, start + 1 : end, None])[:, 0]
        means.append(lost[scored - start - 1 :].mean())
        scored = end
        if end == N:
            return torch.stack(means).mean().exp().item()
        end = min(end + stride, N)
