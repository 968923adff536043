"""wrong: nothing ever changes
points: 0
"""
WHAT_CHANGES = {
    "prompt x4": ("almost unchanged", "almost unchanged"),
    "output x4": ("almost unchanged", "almost unchanged"),
    "half the bytes per weight": ("almost unchanged", "almost unchanged"),
    "twice the arithmetic": ("almost unchanged", "almost unchanged"),
    "twice the bandwidth": ("almost unchanged", "almost unchanged"),
    "prefix already cached": ("almost unchanged", "almost unchanged"),
}
