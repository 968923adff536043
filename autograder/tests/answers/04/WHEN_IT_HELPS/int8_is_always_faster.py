"""wrong: fewer bytes are always faster
points: 0
"""
WHEN_IT_HELPS = {
    "dequantize first": ("faster", "faster"),
    "fused loop": ("faster", "faster"),
    "packed kernel": ("faster", "faster"),
}
