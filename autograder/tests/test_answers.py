"""Every answer kept in `answers/`: right ones earn full marks, wrong ones lose them with a message that says why."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from autograder import chapters
from autograder.exercise import Exercise, MarkScheme
from autograder.judge import Cell, Judge

ANSWERS = Path(__file__).parent / "answers"
FILES = sorted(ANSWERS.glob("*/*/*.py"))


def card(path: Path) -> dict[str, str]:
    """The `key: value` lines of an answer's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in text.splitlines()) if v}


@pytest.fixture(scope="module")
def judge():
    with Judge(measure=False) as judge:
        yield judge


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_an_answer_earns_what_it_should(path: Path, judge: Judge):
    kept = card(path)
    exercise = chapters.find(path.parent.name)
    told = judged(judge, exercise, path, kept)
    if exercise.key is None and "message" in kept and kept["message"].lower() not in told.lower():
        # Another mistake may give the same value on some fresh inputs; points may not depend on them, a message may.
        assert kept["message"].lower() in judged(judge, exercise, path, kept).lower(), told


def judged(judge: Judge, exercise: Exercise, path: Path, kept: dict[str, str]) -> str:
    """What an answer is told, once its points are right."""
    verdict = judge.judge(exercise, [Cell(path.read_text(), path.stem, 1)])
    told = " ".join(f"{r.name} {r.message}" for r in verdict.rungs if not r.ok)
    assert verdict.review is None, verdict.review
    if "right" in kept:
        assert verdict.points == exercise.points - exercise.speed_points, told or verdict.note
        return told
    assert verdict.points == float(kept["points"]), f"{verdict.points}: {told or verdict.note}"
    if "speed" not in kept:
        assert verdict.points < exercise.points - exercise.speed_points
    return told


def test_every_exercise_has_wrong_answers_that_are_caught_and_another_right_one():
    for name in chapters.names():
        exercise = chapters.find(name)
        if isinstance(exercise, MarkScheme):
            continue
        cards = [card(p) for p in FILES if p.parent.name == name]
        assert sum("wrong" in c for c in cards) >= 3, f"{name}: three wrong answers"
        assert any("right" in c for c in cards), f"{name}: one right answer, differently written"
        for kept in cards:
            if "wrong" in kept and exercise.key is None and "speed" not in kept:
                assert kept.get("message"), f"{name}: every wrong answer is met by its own message"
