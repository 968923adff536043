"""right: a loop, and a subclass of ValueError
points: 5
"""


class NoTokens(ValueError):
    pass


def gaps_between(stamps):
    gaps, before = [], None
    for stamp in stamps:
        if before is not None:
            gaps.append(stamp - before)
        before = stamp
    return tuple(gaps)


def latency_metrics(sent, token_times):
    if len(token_times) == 0:
        raise NoTokens
    first, last = min(token_times), max(token_times)
    try:
        per_token = (last - first) / (len(token_times) - 1)
    except ZeroDivisionError:
        per_token = None
    return {"e2e": last - sent, "itl": gaps_between(token_times), "tpot": per_token, "ttft": first - sent}
