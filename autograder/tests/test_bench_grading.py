"""The benchmark of grading: what is handed in, what is timed, and in which order."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import nbformat
import pytest
from nbgrader.utils import is_solution

from autograder.classroom.bench_grading import (
    JUDGED_BEFORE,
    KINDS,
    BenchmarkError,
    Run,
    in_turn,
    run,
    scaling_of,
    seconds_each,
    submissions,
    table,
)
from autograder.course.reference import repository
from autograder.judge import read_cells

SLUG = "01_prefill_and_decode"


@pytest.fixture(scope="module")
def twenty():
    return submissions(SLUG, 20, repository())


def test_twenty_students_hand_in_the_whole_release_and_no_two_of_them_the_same(twenty):
    released = nbformat.read(repository() / "release" / SLUG / f"{SLUG}.ipynb", 4)
    assert len({json.dumps(notebook) for notebook in twenty.values()}) == 20
    for notebook in twenty.values():
        nbformat.validate(notebook)
        assert [cell.metadata for cell in notebook.cells] == [cell.metadata for cell in released.cells]
        kept = [cell.source for cell in notebook.cells if not is_solution(cell)]
        assert kept == [cell.source for cell in released.cells if not is_solution(cell)]


def test_the_answers_are_the_courses_those_the_tests_keep_and_none(twenty):
    kinds = dict(zip(twenty, KINDS * 2, strict=True))
    code = {student: "\n".join(cell.source for cell in notebook.cells) for student, notebook in twenty.items()}
    for student, kind in kinds.items():
        assert ("wrong: " in code[student]) == (kind == "wrong")
        assert ("right: " in code[student]) == (kind == "right")
        stubs = code[student].count("raise NotImplementedError")
        assert stubs == {"untouched": 3, "half-way": 2}.get(kind, 0), kind
    solution = next(
        c.source for c in read_cells(repository() / "source" / SLUG / f"{SLUG}.ipynb") if "SOLUTION" in c.source
    )
    assert solution in code["student-00"]


def test_the_memory_of_a_command_is_that_of_everything_it_started(tmp_path):
    child = "import time; held = bytearray(b'x') * 200_000_000; time.sleep(1.5)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    seconds, peak = run((sys.executable, "-c", parent), tmp_path, 60)
    assert seconds > 1.5 and 200_000_000 < peak < 400_000_000


def test_a_command_that_fails_or_does_not_end_is_told_in_a_sentence(tmp_path):
    with pytest.raises(BenchmarkError, match="failed: no such course"):
        run((sys.executable, "-c", "import sys; print('no such course'); sys.exit(2)"), tmp_path, 60)
    with pytest.raises(BenchmarkError, match="did not end within 1 s"):
        run((sys.executable, "-c", "import time; time.sleep(60)"), tmp_path, 1)


class Recorded:
    """A course that only writes down what it was given, and takes as many seconds as it has letters."""

    def __init__(self, side: str, asked: list) -> None:
        self.side, self._asked = side, asked

    def grade(self, notebooks: dict) -> Run:
        self._asked.append((self.side, *notebooks))
        return Run(self.side, float(len(self.side)), 10**6, len(notebooks))


def test_the_sides_take_turns_and_the_first_submission_does_not_count():
    asked: list = []
    runs = in_turn([Recorded("a", asked), Recorded("bb", asked)], dict.fromkeys("vwxyz"), 2)
    assert asked[:2] == [("a", "v"), ("bb", "v")]
    assert asked[2:] == [("a", "w", "x"), ("bb", "w", "x"), ("bb", "y", "z"), ("a", "y", "z")]
    assert seconds_each([asdict(each) for each in runs]) == {"a": 0.5, "bb": 1.0}


def test_judging_is_what_is_left_when_nothing_has_to_be_judged():
    asked: list = []
    runs = in_turn([Recorded("1 worker(s)", asked)], dict.fromkeys("vw"), 1, again=True)
    assert [each.side for each in runs] == ["1 worker(s)", "1 worker(s)" + JUDGED_BEFORE]
    each = {
        "1 worker(s)": 5.0,
        "2 worker(s)": 3.0,
        "1 worker(s), judged before": 1.0,
        "2 worker(s), judged before": 1.0,
    }
    assert scaling_of(each) == 2.0 and scaling_of({"1 worker(s)": 5.0}) is None


def test_the_table_has_a_row_for_each_side():
    rows = [asdict(Run(side, seconds, 10**9, 5)) for side, seconds in (("plain", 50.0), ("ours", 25.0), ("ours", 25.0))]
    drawn = table({"slug": SLUG, "tier": "process", "runs": rows, "workers": []})
    columns = [list(column.cells) for column in drawn.columns]
    assert columns == [["plain", "ours"], ["5", "10"], ["10.00", "5.00"], ["1,000", "1,000"], ["1.00", "0.50"]]
