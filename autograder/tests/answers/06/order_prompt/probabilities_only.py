"""wrong: the value of the best order instead of the order
points: 0
message: return a list of the parts
"""
from itertools import permutations


def order_prompt(parts):
    def reused(order):
        unchanged, total = 1, 0
        for _, tokens, p in order:
            unchanged *= p
            total += tokens * unchanged
        return total

    return max(map(reused, permutations(parts)))
