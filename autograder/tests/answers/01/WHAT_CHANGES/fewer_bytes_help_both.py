"""wrong: bytes bound both phases
points: 1
"""
WHAT_CHANGES = {
    "prompt x4": ("about 4x or somewhat more", "almost unchanged"),
    "output x4": ("almost unchanged", "almost unchanged"),
    "half the bytes per weight": ("about half", "about half"),
    "twice the arithmetic": ("about half", "almost unchanged"),
    "twice the bandwidth": ("about half", "about half"),
    "prefix already cached": ("a small fraction", "almost unchanged"),
}
