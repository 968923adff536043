"""wrong: refuses every weight, so that what does not divide is refused as well
points: 1
message: your code raised ValueError
"""


def quantize_groups(weight, *, bits, group_size, symmetric):
    raise ValueError("not divisible")


def dequantize_groups(q, scale, minimum, *, group_size):
    return q * scale.repeat_interleave(group_size, dim=1) + minimum.repeat_interleave(group_size, dim=1)
