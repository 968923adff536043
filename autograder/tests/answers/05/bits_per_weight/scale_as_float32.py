"""wrong: takes 32 bits for each, whatever is asked
points: 0
message: scale_bits
"""


def bits_per_weight(*, bits, group_size, scale_bits, minimum_bits):
    return bits + 64 / group_size
