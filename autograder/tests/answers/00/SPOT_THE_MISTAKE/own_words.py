"""wrong: values that are not on the list
points: 0
"""

SPOT_THE_MISTAKE = {
    "A": "mistake A",
    "B": "mistake B",
    "C": "mistake C",
    "D": "mistake D",
    "E": "mistake E",
    "F": "mistake F",
}
