"""wrong: parts that are unlikely to stay are left out
points: 0
message: each belongs there once
"""


def order_prompt(parts):
    kept = [part for part in parts if part[2] >= 0.99]
    return sorted(kept, key=lambda part: part[2], reverse=True)
