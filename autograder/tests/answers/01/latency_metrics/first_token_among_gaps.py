"""wrong: the wait for the first token is counted as a gap
points: 1
message: no token came before it
"""


def latency_metrics(sent, token_times):
    if not token_times:
        raise ValueError("no tokens")
    stamps = [sent] + token_times
    gaps = [stamps[i + 1] - stamps[i] for i in range(len(token_times))]
    return {
        "ttft": gaps[0],
        "tpot": sum(gaps) / len(gaps),
        "itl": gaps,
        "e2e": sum(gaps),
    }
