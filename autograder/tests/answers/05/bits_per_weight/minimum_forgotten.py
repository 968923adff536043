"""wrong: counts the scale and not the minimum
points: 1
message: minimum
"""


def bits_per_weight(*, bits, group_size, scale_bits, minimum_bits):
    return bits + scale_bits / group_size
