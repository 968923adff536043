"""wrong: a scale and a minimum for each weight
points: 0
message: share
"""


def bits_per_weight(*, bits, group_size, scale_bits, minimum_bits):
    return bits + scale_bits + minimum_bits
