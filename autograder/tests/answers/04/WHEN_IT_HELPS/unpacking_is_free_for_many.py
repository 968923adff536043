"""wrong: a fused loop is fast for many tokens, too
points: 1.5
"""
WHEN_IT_HELPS = {
    "dequantize first": ("much slower", "a little slower"),
    "fused loop": ("faster", "faster"),
    "packed kernel": ("faster", "about the same"),
}
