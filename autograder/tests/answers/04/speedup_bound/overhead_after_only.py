"""wrong: the overhead comes with the smaller weights
points: 1
message: the old one made the same calls
"""
def speedup_bound(bytes_before, bytes_after, *, overhead_s, bandwidth):
    before, after = bytes_before / bandwidth, bytes_after / bandwidth
    return before / (after + overhead_s)
