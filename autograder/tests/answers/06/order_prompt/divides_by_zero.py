"""wrong: the right rule, which fails for a part that never changes
points: 3
message: ZeroDivisionError
"""


def order_prompt(parts):
    return sorted(parts, key=lambda part: part[1] * part[2] / (1 - part[2]), reverse=True)
