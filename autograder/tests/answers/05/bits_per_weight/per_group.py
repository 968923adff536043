"""wrong: the bits of a whole group
points: 0
message: whole group
"""


def bits_per_weight(*, bits, group_size, scale_bits, minimum_bits):
    return bits * group_size + scale_bits + minimum_bits
