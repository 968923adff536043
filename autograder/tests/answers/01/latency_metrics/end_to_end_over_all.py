"""wrong: the whole time over all tokens
points: 3
message: first token's wait
"""


def latency_metrics(sent, token_times):
    if not token_times:
        raise ValueError("no tokens")
    gaps = [b - a for a, b in zip(token_times, token_times[1:])]
    return {
        "ttft": token_times[0] - sent,
        "tpot": (token_times[-1] - sent) / len(token_times) if gaps else None,
        "itl": gaps,
        "e2e": token_times[-1] - sent,
    }
