"""wrong: one token has a time per output token of 0
points: 4
message: expected None
"""


def latency_metrics(sent, token_times):
    if not token_times:
        raise ValueError("no tokens")
    gaps = [b - a for a, b in zip(token_times, token_times[1:])]
    return {
        "ttft": token_times[0] - sent,
        "tpot": sum(gaps) / max(len(gaps), 1),
        "itl": gaps,
        "e2e": token_times[-1] - sent,
    }
