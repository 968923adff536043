"""wrong: twice the arithmetic halves both
points: 1.5
"""
WHAT_CHANGES = {
    "prompt x4": ("about 4x or somewhat more", "almost unchanged"),
    "output x4": ("almost unchanged", "almost unchanged"),
    "half the bytes per weight": ("almost unchanged", "about half"),
    "twice the arithmetic": ("about half", "about half"),
    "twice the bandwidth": ("almost unchanged", "about half"),
    "prefix already cached": ("a small fraction", "almost unchanged"),
}
