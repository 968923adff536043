"""wrong: refuses every stride
points: 0
message: your code raised ValueError
"""


def perplexity(model, ids, *, window, stride):
    raise ValueError("stride")
