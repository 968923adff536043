"""wrong: one answer for everything
points: 0
"""

SPOT_THE_MISTAKE = {
    "A": "the clock stops before the work is done",
    "B": "the clock stops before the work is done",
    "C": "the clock stops before the work is done",
    "D": "the clock stops before the work is done",
    "E": "the clock stops before the work is done",
    "F": "the clock stops before the work is done",
}
