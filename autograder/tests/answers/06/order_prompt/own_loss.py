"""wrong: sorted by the tokens each part itself loses
points: 2
message: tokens a part loses itself
"""


def order_prompt(parts):
    return sorted(parts, key=lambda part: part[1] * (1 - part[2]))
