"""wrong: the parts as they came
points: 1
message: in which they came
"""


def order_prompt(parts):
    return list(parts)
