"""wrong: divides as integers
points: 0
message: fraction
"""


def bits_per_weight(*, bits, group_size, scale_bits, minimum_bits):
    return bits + (scale_bits + minimum_bits) // group_size
