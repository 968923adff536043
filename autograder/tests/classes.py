"""A small class on disk: an assignment of chapter 00, what students made of it, and how it is graded.

Everything a test needs to be a teacher for a moment: a course folder, submissions, nbgrader's own commands and ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
from nbformat import NotebookNode, v4
from nbgrader.api import Gradebook

from autograder import chapters
from autograder.course import release

REPOSITORY = Path(__file__).parents[2]
TIER = "sandbox"  # how submissions are kept apart in these tests
SMALL = "00_measure_honestly"  # an assignment made here, with some of that chapter's exercises
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SOLVED = """def median_and_iqr(samples):
    ### BEGIN SOLUTION
    return "THE SOLUTION"
    ### END SOLUTION"""


# notebooks


def nbgrader_cell(kind: str, source: str, grade_id: str, **flags) -> NotebookNode:
    nbgrader = {"grade": False, "locked": False, "schema_version": 3, "solution": False, "task": False}
    make = v4.new_code_cell if kind == "code" else v4.new_markdown_cell
    return make(source, id=grade_id.replace("_", "-"), metadata={"nbgrader": nbgrader | flags | {"grade_id": grade_id}})


def exercise_cells(name: str, source: str) -> list[NotebookNode]:
    """The answer cell and the check cell of an exercise."""
    points = chapters.find(name).points
    return [
        nbgrader_cell("code", source, f"{name}_solution", solution=True),
        nbgrader_cell("code", f'check("{name}")', name, grade=True, locked=True, points=points),
    ]


def small_source() -> NotebookNode:
    key = dict(chapters.find("SPOT_THE_MISTAKE").key)
    quiz = "SPOT_THE_MISTAKE = {}\n### BEGIN SOLUTION\nSPOT_THE_MISTAKE = {}\n### END SOLUTION"
    answer, check = exercise_cells("median_and_iqr", SOLVED)
    cells = [
        v4.new_markdown_cell("# A small assignment", id="title"),
        answer,
        v4.new_code_cell("median_and_iqr([1, 2, 3])", id="look"),
        check,
        *exercise_cells("SPOT_THE_MISTAKE", quiz.format(dict.fromkeys(key), key)),
        nbgrader_cell("markdown", "THE MODEL ANSWER", "when_to_trust_a_number", grade=True, solution=True, points=5),
    ]
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"autograder": {"chapter": SMALL}, "kernelspec": kernel})


def cell(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)


def changed(notebook: NotebookNode, grade_id: str, **changes) -> NotebookNode:
    """A copy of the notebook with one cell changed: its entries, or (in nbgrader=) its nbgrader metadata."""
    copied = nbformat.from_dict(json.loads(json.dumps(notebook)))
    one = cell(copied, grade_id)
    one.metadata.nbgrader.update(changes.pop("nbgrader", {}))
    one.update(changes)
    return copied


def with_cells(notebook: NotebookNode, cells: list) -> NotebookNode:
    return NotebookNode(notebook | {"cells": cells})


RESTORED = {  # what may become of a test cell
    "edited": lambda nb: changed(nb, "median_and_iqr", source="3.0"),
    "made markdown": lambda nb: changed(nb, "median_and_iqr", cell_type="markdown"),
    "flags flipped": lambda nb: changed(
        nb, "median_and_iqr", nbgrader={"grade": False, "solution": True, "locked": False, "points": 100}
    ),
    "an old schema": lambda nb: changed(nb, "median_and_iqr", nbgrader={"schema_version": 1}),
    "a new schema": lambda nb: changed(nb, "median_and_iqr", nbgrader={"schema_version": 9}),
    "deleted": lambda nb: with_cells(nb, [c for c in nb.cells if c != cell(nb, "median_and_iqr")]),
    "copied": lambda nb: with_cells(nb, [*nb.cells, cell(changed(nb, "median_and_iqr", id="copy"), "median_and_iqr")]),
    "tagged": lambda nb: changed(
        nb, "median_and_iqr", metadata=cell(nb, "median_and_iqr").metadata | {"tags": ["skip-execution"]}
    ),
}


# a course on disk


def make_course(root: Path, slug: str, source: NotebookNode) -> Path:
    (root / "source" / slug).mkdir(parents=True)
    nbformat.write(source, root / "source" / slug / f"{slug}.ipynb")
    shutil.copy(REPOSITORY / "nbgrader_config.py", root)
    return root


def registered(root: Path, slug: str, source: NotebookNode) -> Path:
    """A course with one assignment, entered into its gradebook, with its release."""
    make_course(root, slug, source)
    release.generate([slug], root)
    release.register(slug, root, f"sqlite:///{root}/gradebook.db")
    return root


def released_notebook(root: Path, slug: str = SMALL) -> NotebookNode:
    return nbformat.read(root / "release" / slug / f"{slug}.ipynb", 4)


def hand_in(root: Path, student: str, notebook: NotebookNode | str | None, slug: str = SMALL, name: str = "") -> Path:
    folder = root / "submitted" / student / slug
    folder.mkdir(parents=True)
    path = folder / f"{name or slug}.ipynb"
    if notebook is not None:
        text = notebook if isinstance(notebook, str) else nbformat.writes(notebook)
        path.write_text(text, encoding="utf-8")
    return path


def gradebook_of(root: Path) -> Gradebook:
    return Gradebook(f"sqlite:///{root}/gradebook.db", "making-generation-faster")


def graded_copy(root: Path, student: str, slug: str = SMALL) -> NotebookNode:
    """What a person who marks sees of a submission."""
    return nbformat.read(root / "autograded" / student / slug / f"{slug}.ipynb", 4)


# a teacher's commands


NBGRADER = ("-m", "nbgrader")
AUTOGRADER = ("-c", "from autograder.cli import main; main()")
SECONDS = 1500


def started(root: Path, *words: str, **environment: str | None) -> subprocess.Popen:
    """A command of this Python's, begun in a course as by a teacher who did not activate the environment.

    environment: more variables; None takes one away.
    """
    variables = os.environ | {"PATH": os.defpath} | environment
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=root,
        env={name: value for name, value in variables.items() if value is not None},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )


def ended(process: subprocess.Popen, status: int | None = 0) -> tuple[str, str]:
    """What a command put out and what it logged, once it has ended with this status (any but 0 for None)."""
    try:
        out, log = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == status if status is not None else process.returncode != 0, log + out
    return out, log


def nbgrader(root: Path, words: str, *, status: int | None = 0, **environment: str | None) -> str:
    """Run an nbgrader command in a course; what it said."""
    return "".join(ended(started(root, *NBGRADER, *words.split(), **environment), status))


# pages


class Active(HTMLParser):
    """Collects whatever in a page can do something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found += [tag] if tag in ("script", "iframe", "object", "embed", "style", "form", "svg", "img") else []
        for name, value in attrs:
            target = "".join(c for c in value or "" if c > " ").lower()
            if name.startswith("on") or (
                name in ("href", "src") and target.startswith(("javascript:", "vbscript:", "data:text"))
            ):
                self.found.append(f"{name}={value}")
