"""right: by the share of the step that reads
points: 2
"""
def speedup_bound(bytes_before, bytes_after, *, overhead_s, bandwidth):
    step = overhead_s + bytes_before / bandwidth
    share = bytes_before / bandwidth / step
    return 1 / (1 - share + share * bytes_after / bytes_before)
