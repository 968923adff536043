"""wrong: divides by N instead of N - 1
points: 3
message: how many gaps lie between
"""
import numpy as np


def latency_metrics(sent, token_times):
    if len(token_times) == 0:
        raise ValueError("no tokens")
    gaps = np.diff(token_times)
    tpot = gaps.sum() / len(token_times) if len(gaps) else None
    return dict(ttft=token_times[0] - sent, tpot=tpot, itl=list(gaps), e2e=token_times[-1] - sent)
