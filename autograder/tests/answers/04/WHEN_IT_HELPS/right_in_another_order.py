"""right: the same rows in another order
points: 2
"""
WHEN_IT_HELPS = {
    "packed kernel": ("faster", "about the same"),
    "dequantize first": ("much slower", "a little slower"),
    "fused loop": ("faster", "much slower"),
}
