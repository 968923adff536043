"""The gradebook as CSV, for `nbgrader export`: nbgrader's columns, in a file that every spreadsheet reads back.

nbgrader's own exporter writes fields as they are, so that a comma in somebody's name moves their marks by a column.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Assignment, Gradebook, MissingEntry, Student
from nbgrader.plugins import ExportPlugin

COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
    "unmarked",
)


class MarksCsv(ExportPlugin):
    """A row for each student and assignment; `unmarked` counts answers that still wait for a person."""

    def export(self, gradebook: Gradebook) -> None:
        path = Path(self.to or "grades.csv")
        rows = list(self._rows(gradebook))
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        if waiting := sum(row["unmarked"] for row in rows):
            self.log.warning("%d answers still wait for a person, and count as 0 in %s", waiting, path)

    def _rows(self, gradebook: Gradebook) -> Iterator[dict]:
        for assignment in sorted(gradebook.assignments, key=lambda assignment: assignment.name):
            for student in sorted(gradebook.students, key=lambda student: student.id):
                wanted = not self.assignment or assignment.name in map(str, self.assignment)
                if wanted and (not self.student or student.id in map(str, self.student)):
                    yield _row(gradebook, assignment, student)


def _row(gradebook: Gradebook, assignment: Assignment, student: Student) -> dict:
    """One student's marks for an assignment; nothing handed in is 0."""
    row = {
        "assignment": assignment.name,
        "duedate": assignment.duedate or "",
        "student_id": student.id,
        "last_name": student.last_name or "",
        "first_name": student.first_name or "",
        "email": student.email or "",
        "max_score": assignment.max_score,
    }
    try:
        submission = gradebook.find_submission(assignment.name, student.id)
    except MissingEntry:
        return row | {"timestamp": "", "raw_score": 0.0, "late_submission_penalty": 0.0, "score": 0.0, "unmarked": 0}
    raw, penalty = _finite(submission.score), _finite(submission.late_submission_penalty)
    waiting = sum(grade.needs_manual_grade for notebook in submission.notebooks for grade in notebook.grades)
    return row | {
        "timestamp": submission.timestamp or "",
        "raw_score": raw,
        "late_submission_penalty": penalty,
        "score": max(0.0, raw - penalty),
        "unmarked": waiting,
    }


def _finite(number: float | None) -> float:
    return float(number) if number is not None and math.isfinite(number) else 0.0
