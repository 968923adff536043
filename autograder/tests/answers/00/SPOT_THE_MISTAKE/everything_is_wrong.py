"""wrong: finds a mistake in the sound procedure too
points: 1.5
"""

SPOT_THE_MISTAKE = {
    "A": "the clock stops before the work is done",
    "B": "the first call is counted",
    "C": "one side always goes first",
    "D": "the two sides met different machines",
    "E": "the clock stops before the work is done",
    "F": "the summary hides most calls",
}
