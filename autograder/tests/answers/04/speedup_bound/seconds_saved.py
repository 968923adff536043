"""wrong: seconds saved
points: 0
message: a speedup is a ratio of times
"""
def speedup_bound(bytes_before, bytes_after, *, overhead_s, bandwidth):
    before, after = bytes_before / bandwidth, bytes_after / bandwidth
    return before - after
