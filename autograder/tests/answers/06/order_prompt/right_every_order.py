"""right: tries every order"""
from itertools import permutations


def order_prompt(parts):
    def reused(order):
        unchanged, total = 1.0, 0.0
        for _, tokens, p in order:
            unchanged *= p
            total += tokens * unchanged
        return total

    return list(max(permutations(parts), key=reused))
