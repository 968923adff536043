"""wrong: divides by zero gaps
points: 4
message: ZeroDivisionError
"""


def latency_metrics(sent, token_times):
    if not token_times:
        raise ValueError("no tokens")
    return {
        "ttft": token_times[0] - sent,
        "tpot": (token_times[-1] - token_times[0]) / (len(token_times) - 1),
        "itl": [b - a for a, b in zip(token_times, token_times[1:])],
        "e2e": token_times[-1] - sent,
    }
