"""right: swaps neighbours as long as that reuses more, and gives the names back"""


def order_prompt(parts):
    order = list(parts)
    for _ in order:
        for i in range(len(order) - 1):
            (_, n, p), (_, m, q) = order[i], order[i + 1]
            if m * q + n * p * q > n * p + m * p * q:
                order[i], order[i + 1] = order[i + 1], order[i]
    return [name for name, _, _ in order]
