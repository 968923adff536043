"""right: all bits of a group, shared out"""
from fractions import Fraction


def bits_per_weight(*, bits, group_size, scale_bits, minimum_bits):
    return float(Fraction(group_size * bits + scale_bits + minimum_bits, group_size))
