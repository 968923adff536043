"""wrong: bytes
points: 0
message: bytes
"""


def bits_per_weight(*, bits, group_size, scale_bits, minimum_bits):
    return (bits * group_size + scale_bits + minimum_bits) / group_size / 8
