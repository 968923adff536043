"""wrong: what holds for one token holds for many
points: 0.5
"""
WHEN_IT_HELPS = {
    "dequantize first": ("much slower", "much slower"),
    "fused loop": ("faster", "faster"),
    "packed kernel": ("faster", "faster"),
}
