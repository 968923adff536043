"""How far a learner is: the best marks so far, in a small file of their own. Never part of grading."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autograder import chapters
from autograder.course.reference import repository
from autograder.exercise import MarkScheme
from autograder.judge import Verdict

# Running a notebook in one of these is a teacher's work, not a learner's progress.
NOT_A_LEARNERS = ("source", "release", "submitted", "autograded", "feedback")


def progress_file() -> Path:
    """`work/.progress.json` of the repository; the user's data folder where there is no repository.

    $AUTOGRADER_PROGRESS names another file.
    """
    if named := os.environ.get("AUTOGRADER_PROGRESS"):
        return Path(named)
    if (root := repository()) is not None:
        return root / "work" / ".progress.json"
    import platformdirs

    return Path(platformdirs.user_data_dir("making-generation-faster")) / "progress.json"


def read() -> dict[str, dict]:
    """Exercise name -> {"points", "max_points"}; empty when nothing is recorded or the file is damaged."""
    try:
        kept = json.loads(progress_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def counts_as_learning(folder: Path) -> bool:
    """Whether a notebook run in this folder is a learner's own work."""
    root = repository()
    try:
        inside = folder.resolve().relative_to(root).parts if root else ()
    except ValueError:
        return True
    return not inside or inside[0] not in NOT_A_LEARNERS


def record(name: str, points: float, max_points: float) -> None:
    """Keep the better of these points and what was there. A full disk or a read-only home is no reason to stop."""
    kept = read()
    if kept.get(name, {}).get("points", -1) >= points:
        return
    kept[name] = {"points": points, "max_points": max_points}
    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".progress")
        with os.fdopen(handle, "w") as file:
            json.dump(kept, file, indent=1)
        os.replace(temporary, path)
    except OSError:
        return


def record_verdict(verdict: Verdict) -> None:
    """Keep the points of a check."""
    record(verdict.name, verdict.points, verdict.max_points)


@dataclass(frozen=True)
class ChapterProgress:
    """Points by check and points a learner gave their own written answers."""

    slug: str
    title: str
    points: float
    max_points: float
    written: float
    max_written: float


def by_chapter() -> list[ChapterProgress]:
    """One row per chapter, in order."""
    kept, rows = read(), []
    for slug in chapters.SLUGS:
        chapter = chapters.load(slug)
        rows.append(
            ChapterProgress(
                slug,
                chapter.title,
                sum(_points(kept, exercise.name, exercise.points) for exercise in chapter.exercises),
                chapter.max_points,
                sum(_points(kept, scheme.name, len(scheme.points)) for scheme in chapter.written),
                sum(len(scheme.points) for scheme in chapter.written),
            )
        )
    return rows


def _points(kept: dict, name: str, most: float) -> float:
    points = kept.get(name, {}).get("points", 0)
    return min(float(points), most) if isinstance(points, int | float) else 0.0


def next_step() -> str | None:
    """The first exercise without full marks or question not yet marked, or None at the end."""
    kept = read()
    for name in chapters.names():
        item = chapters.find(name)
        done = name in kept if isinstance(item, MarkScheme) else _points(kept, name, item.points) >= item.points
        if not done:
            return name
    return None


def what_next() -> str:
    """Where to go on, in one line."""
    name = next_step()
    return f"Next: {name}, in {chapters.chapter_of(name)}" if name else "Everything here has full marks."
