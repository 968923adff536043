"""wrong: the ratio of the bytes
points: 1
message: as if a step did nothing but read
"""
def speedup_bound(bytes_before, bytes_after, *, overhead_s, bandwidth):
    before, after = bytes_before / bandwidth, bytes_after / bandwidth
    return bytes_before / bytes_after
