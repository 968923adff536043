"""wrong: the model comes back as it was
points: 0
message: was anything rounded
"""


class Int8Linear:
    pass


def quantize_model(model):
    return model
