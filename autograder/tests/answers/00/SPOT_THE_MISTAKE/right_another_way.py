"""right: an earlier draft stands above the final answer, in another order
points: 2
"""

SPOT_THE_MISTAKE = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}

SPOT_THE_MISTAKE = {
    "F": "the summary hides most calls",
    "E": "the clock stops before the work is done",
    "D": "the two sides met different machines",
    "C": "nothing is wrong",
    "B": "the first call is counted",
    "A": "the clock stops before the work is done",
}
