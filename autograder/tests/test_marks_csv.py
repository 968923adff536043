"""`nbgrader export`: marks as a table that a learning platform can import."""

from __future__ import annotations

import csv
import math
from datetime import datetime
from pathlib import Path

import pytest

from autograder.classroom import marks_csv
from autograder.classroom.grade import grade
from autograder.tests import test_classroom
from autograder.tests.classes import SMALL, TIER, changed, gradebook_of, hand_in, nbgrader

QUESTION = "when_to_trust_a_number"
small, course, released = test_classroom.small, test_classroom.course, test_classroom.released
lenient_judge = test_classroom.lenient_judge


@pytest.fixture
def class_of_four(course, released, lenient_judge) -> Path:
    """One marked by a person, one unmarked and late, one torn, one who has handed in nothing."""
    right = changed(released, "median_and_iqr_solution", source="# RIGHT median_and_iqr")
    right = changed(right, QUESTION, source="My own words.")
    hand_in(course, "ada", right)
    (hand_in(course, "bob", right).parent / "timestamp.txt").write_text("2026-05-02 12:00:00 UTC")
    hand_in(course, "eve", "not JSON")
    with open(course / "nbgrader_config.py", "a") as config:
        config.write("c.LateSubmissionPlugin.penalty_method = 'zero'\n")
    with gradebook_of(course) as gradebook:
        gradebook.update_or_create_assignment(SMALL, duedate="2026-05-01 12:00:00")
        gradebook.add_student(
            "ada", first_name="Ada", last_name='King, Countess of "Lovelace"', email="ada@example.org"
        )
        gradebook.add_student("zoë")
    grade(SMALL, root=course, tier=TIER)
    with gradebook_of(course) as gradebook:
        marked = gradebook.find_grade(QUESTION, SMALL, SMALL, "ada")
        marked.manual_score, marked.needs_manual_grade = 4, False
        gradebook.db.commit()
    return course


def exported(root: Path, words: str = "") -> tuple[dict[str, dict[str, str]], str]:
    """({student: row}, what the command said)"""
    said = nbgrader(root, f"export --to=marks.csv {words}", PYTHONIOENCODING="utf-8")
    with open(root / "marks.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {row["student_id"]: row for row in rows}, said


def test_every_row_has_every_column_finite_numbers_and_what_waits_for_a_person(class_of_four):
    rows, said = exported(class_of_four)
    assert set(rows) == {"ada", "bob", "eve", "zoë"}
    for row in rows.values():
        assert tuple(row) == marks_csv.COLUMNS and None not in row.values()
        assert row["assignment"] == SMALL and row["max_score"] == "10.0"
        numbers = [float(row[name]) for name in ("raw_score", "late_submission_penalty", "score", "max_score")]
        assert all(math.isfinite(number) and number >= 0 for number in numbers)
        assert datetime.fromisoformat(row["duedate"])
    points = {
        student: (row["raw_score"], row["late_submission_penalty"], row["score"]) for student, row in rows.items()
    }
    assert points == {
        "ada": ("7.0", "0.0", "7.0"),
        "bob": ("3.0", "3.0", "0.0"),
        "eve": ("0.0", "0.0", "0.0"),
        "zoë": ("0.0", "0.0", "0.0"),
    }
    assert datetime.fromisoformat(rows["bob"]["timestamp"]) == datetime(2026, 5, 2, 12)
    assert "answers still wait for a person, and count as 0 in marks.csv" in said
    assert rows["ada"]["unmarked"] == "0" and rows["bob"]["unmarked"] == "1" and rows["zoë"]["unmarked"] == "0"
    assert int(rows["eve"]["unmarked"]) == 3, "an unreadable file is a person's to look at, in every exercise"
    assert rows["ada"]["last_name"] == 'King, Countess of "Lovelace"'
    assert (rows["ada"]["first_name"], rows["ada"]["email"]) == ("Ada", "ada@example.org")


def test_a_part_of_the_class_can_be_exported(class_of_four):
    assert set(exported(class_of_four, '--student=["bob"]')[0]) == {"bob"}
