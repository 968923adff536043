"""wrong: e2e counts from the first token
points: 4
message: leaves out the wait
"""


def latency_metrics(sent, token_times):
    if not token_times:
        raise ValueError("no tokens")
    gaps = [b - a for a, b in zip(token_times, token_times[1:])]
    return {
        "ttft": token_times[0] - sent,
        "tpot": sum(gaps) / len(gaps) if gaps else None,
        "itl": gaps,
        "e2e": token_times[-1] - token_times[0],
    }
