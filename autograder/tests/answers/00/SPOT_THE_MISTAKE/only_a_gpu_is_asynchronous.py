"""wrong: does not see that a generator comes back early as well
points: 1.5
"""

SPOT_THE_MISTAKE = {
    "A": "the clock stops before the work is done",
    "B": "the first call is counted",
    "C": "nothing is wrong",
    "D": "the two sides met different machines",
    "E": "the first call is counted",
    "F": "the summary hides most calls",
}
