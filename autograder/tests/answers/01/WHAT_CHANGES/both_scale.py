"""wrong: a longer prompt or answer stretches both
points: 1
"""
WHAT_CHANGES = {
    "prompt x4": ("about 4x or somewhat more", "about 4x or somewhat more"),
    "output x4": ("almost unchanged", "about 4x or somewhat more"),
    "half the bytes per weight": ("almost unchanged", "about half"),
    "twice the arithmetic": ("about half", "almost unchanged"),
    "twice the bandwidth": ("almost unchanged", "about half"),
    "prefix already cached": ("a small fraction", "almost unchanged"),
}
