"""wrong: the longest first
points: 1
message: the longest first
"""


def order_prompt(parts):
    return sorted(parts, key=lambda part: part[1], reverse=True)
