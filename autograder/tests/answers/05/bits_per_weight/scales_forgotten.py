"""wrong: the bits of the numbers alone
points: 0
message: scale
"""


def bits_per_weight(*, bits, group_size, scale_bits, minimum_bits):
    return bits
