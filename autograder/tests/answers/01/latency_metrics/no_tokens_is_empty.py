"""wrong: no tokens gives a dict of zeros instead of a ValueError
points: 4
message: raise ValueError
"""


def latency_metrics(sent, token_times):
    if not token_times:
        return {"ttft": 0, "tpot": None, "itl": [], "e2e": 0}
    gaps = [b - a for a, b in zip(token_times, token_times[1:])]
    return {
        "ttft": token_times[0] - sent,
        "tpot": sum(gaps) / len(gaps) if gaps else None,
        "itl": gaps,
        "e2e": token_times[-1] - sent,
    }
