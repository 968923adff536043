"""Verdicts kept on disk, so that an unchanged submission is judged once and grading can be taken up again.

They lie in .verdicts/ at the course's root, for the teacher only, one file for each of everything a mark
depends on: the code handed in, the chapter, the tier, the course's own code and solutions, the kind of machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

import autograder
from autograder import chapters, lab
from autograder.course.reference import references, source_notebook
from autograder.judge import Cell, Report, judge_notebook

FOLDER = ".verdicts"
PACKAGE = Path(autograder.__file__).parent


def report(
    cells: Sequence[Cell],
    chapter: str,
    root: Path,
    *,
    tier: str,
    measure: bool = True,
    again: bool = False,
    progress: Callable[[str, float], None] | None = None,
) -> Report:
    """The marks of these cells: those on disk, or (when there are none, or `again`) newly judged and kept."""
    solution = source_notebook(chapter, root)
    key = {
        "submission": _digest(*(f"{cell.number}\n{cell.source}" for cell in cells)),
        "chapter": chapter,
        "tier": tier,
        "measured": measure,
        "course": course_version() + (_digest(solution.read_text()) if solution else ""),
        "machine": machine_class(),
    }
    path = Path(root) / FOLDER / chapter / f"{_digest(*map(str, key.values()))}.json"
    if path.exists() and not again:
        return Report.from_json(json.loads(path.read_text())["report"])
    made = judge_notebook(
        cells,
        chapters.load(chapter),
        tier=tier,
        measure=measure,
        reference=references(root),
        progress=progress,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{platform.node()}-{os.getpid()}")
    partial.write_text(json.dumps({"key": key, "report": made.to_json()}, indent=1))
    partial.replace(path)
    return made


@cache
def course_version() -> str:
    """The package's version and a digest of its code, so that marks are never those of an older course."""
    files = sorted(path for path in PACKAGE.rglob("*.py") if PACKAGE / "tests" not in path.parents)
    version = metadata.version("making-generation-faster")
    return f"{version}-{_digest(*(path.read_text() for path in files))}"


@cache
def machine_class() -> str:
    """The processor and how many of its cores may be used: what a measured speed depends on."""
    return f"{lab.hardware.processor_name()} x{lab.hardware.usable_cores()}"


def _digest(*texts: str) -> str:
    whole = hashlib.sha256()
    for text in texts:
        whole.update(f"{len(text)}:{text}".encode("utf-8", "replace"))
    return whole.hexdigest()[:24]
