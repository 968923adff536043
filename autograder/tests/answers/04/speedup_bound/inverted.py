"""wrong: new over old
points: 0
message: a speedup is the old over the new
"""
def speedup_bound(bytes_before, bytes_after, *, overhead_s, bandwidth):
    before, after = bytes_before / bandwidth, bytes_after / bandwidth
    return (after + overhead_s) / (before + overhead_s)
