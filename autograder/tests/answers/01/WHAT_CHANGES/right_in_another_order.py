"""right: lists, in another order
points: 2
"""
WHAT_CHANGES = {
    "prefix already cached": ["a small fraction", "almost unchanged"],
    "twice the bandwidth": ["almost unchanged", "about half"],
    "twice the arithmetic": ["about half", "almost unchanged"],
    "half the bytes per weight": ["almost unchanged", "about half"],
    "output x4": ["almost unchanged", "almost unchanged"],
    "prompt x4": ["about 4x or somewhat more", "almost unchanged"],
}
