"""wrong: the float copy costs nothing
points: 1
"""
WHEN_IT_HELPS = {
    "dequantize first": ("about the same", "about the same"),
    "fused loop": ("faster", "much slower"),
    "packed kernel": ("faster", "about the same"),
}
