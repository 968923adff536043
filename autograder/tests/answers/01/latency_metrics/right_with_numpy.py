"""right: numpy arrays and scalars
points: 5
"""
import numpy as np


def latency_metrics(sent, token_times):
    stamps = np.asarray(token_times, dtype=np.float64)
    if stamps.size == 0:
        raise ValueError("no tokens")
    metrics = {"ttft": stamps[0] - sent, "e2e": stamps[-1] - sent}
    metrics["itl"] = np.diff(stamps)
    metrics["tpot"] = metrics["itl"].mean() if stamps.size > 1 else None
    return metrics
