"""wrong: the shortest first
points: 2
message: the shortest first
"""


def order_prompt(parts):
    return sorted(parts, key=lambda part: part[1])
