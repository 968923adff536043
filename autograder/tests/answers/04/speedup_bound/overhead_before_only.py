"""wrong: the overhead goes away with the bytes
points: 1
message: the new one makes the same calls
"""
def speedup_bound(bytes_before, bytes_after, *, overhead_s, bandwidth):
    before, after = bytes_before / bandwidth, bytes_after / bandwidth
    return (before + overhead_s) / after
