"""What a learner has built comes back in later lessons: their own where it earned full marks, else the course's."""

from __future__ import annotations

import inspect

import pytest

from autograder import chapters
from autograder.course import built as shelf
from autograder.course.built import NotBuilt, built, file_of, keep, text_of
from autograder.judge import Cell, Verdict
from autograder.judge.slicing import slice_for

NAME = "median_and_iqr"
MINE = "def median_and_iqr(samples):\n    return 'mine', 'too'"
EXERCISE = chapters.find(NAME)


@pytest.fixture(autouse=True)
def nothing_built_yet(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_PROGRESS", str(tmp_path / "progress.json"))


def verdict(points: float = EXERCISE.points) -> Verdict:
    return Verdict(NAME, points, EXERCISE.points, "full" if points == EXERCISE.points else "partial")


def cells(*sources: str) -> list[Cell]:
    return [Cell(source, f"c{n}", n) for n, source in enumerate(sources)]


def test_an_answer_with_full_marks_comes_back(capsys):
    keep(EXERCISE, verdict(), cells("import torch\nprint('loud')", MINE, "median_and_iqr([1])"))
    assert built(NAME)([1]) == ("mine", "too")
    assert capsys.readouterr().out == f"{NAME}: your own, from built/{NAME}.py\n"
    assert file_of(NAME).read_text() == MINE + "\n"


def test_without_full_marks_the_courses_comes(capsys):
    keep(EXERCISE, verdict(1.0), cells(MINE))
    assert not file_of(NAME).exists()
    function = built(NAME)
    assert function([1, 2, 3]) == (2, 1)
    assert capsys.readouterr().out == f"{NAME}: the course's (yours has not earned full marks yet)\n"
    assert "def median_and_iqr" in inspect.getsource(function)


def test_an_answer_that_no_longer_loads_gives_way_to_the_courses(capsys):
    keep(EXERCISE, verdict(), cells("import since_removed\n" + MINE.replace("'mine'", "since_removed")))
    assert built(NAME)([1, 2, 3]) == (2, 1)
    assert "yours did not load: ModuleNotFoundError" in capsys.readouterr().out


def test_where_there_is_neither_a_sentence_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(shelf, "references", lambda: lambda name: None)
    assert built(NAME) is None and built("PreallocatedCache", "CacheFull") == (None, None)
    assert "build it in the assignment 00_measure_honestly" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["SPOT_THE_MISTAKE", "when_to_trust_a_number", "nothing"])
def test_what_no_exercise_builds_is_told(name):
    with pytest.raises(NotBuilt, match=f"no exercise of the course builds `{name}`"):
        built(name)


def test_names_of_one_exercise_come_from_the_same_code(capsys):
    cache, full = built("PreallocatedCache", "CacheFull")
    assert cache.__module__ == full.__module__ == "built_PreallocatedCache"
    assert capsys.readouterr().out.count("\n") == 1


def test_what_is_kept_is_the_code_that_was_judged_as_its_author_wrote_it():
    source = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass  # two numbers\n"
        "class Pair:\n    low: int = 1  # why not\nplot = print; answer = Pair()\n"
    )
    kept = text_of(slice_for(cells(source, "def f():\n    return answer"), ["f"]))
    assert kept == (
        "from __future__ import annotations\n\n\nfrom dataclasses import dataclass\n\n\n@dataclass  # two numbers\n"
        "class Pair:\n    low: int = 1  # why not\n\n\nanswer = Pair()\n\n\ndef f():\n    return answer\n"
    )


def test_every_answer_of_the_course_can_be_used_by_a_lesson(capsys):
    for name in chapters.names():
        exercise = chapters.find(name)
        if getattr(exercise, "key", "written") is None:
            built(*exercise.names)
