"""wrong: sorted by what each part would reuse alone
points: 1
message: sorted by tokens x p
"""


def order_prompt(parts):
    return sorted(parts, key=lambda part: part[1] * part[2], reverse=True)
