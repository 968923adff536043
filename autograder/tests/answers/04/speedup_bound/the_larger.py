"""wrong: reading and everything else at the same time
points: 1
message: the one comes after the other, so they add up
"""


def speedup_bound(bytes_before, bytes_after, *, overhead_s, bandwidth):
    before, after = (max(count / bandwidth, overhead_s) for count in (bytes_before, bytes_after))
    return before / after
