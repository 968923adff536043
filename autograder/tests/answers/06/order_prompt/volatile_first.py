"""wrong: what changes most comes first
points: 1
message: what changes most comes first
"""


def order_prompt(parts):
    return sorted(parts, key=lambda part: part[2])
