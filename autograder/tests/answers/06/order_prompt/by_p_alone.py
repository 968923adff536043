"""wrong: sorted by p alone
points: 2
message: sorted by p alone
"""


def order_prompt(parts):
    return sorted(parts, key=lambda part: part[2], reverse=True)
