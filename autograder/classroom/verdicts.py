"""Verdicts kept on disk, so that an unchanged submission is judged once and grading can be taken up again.

They lie in .verdicts/ at the course's root, for the teacher only, one file for each of everything a mark
depends on: the code handed in, the chapter, the tier, the course's own code and solutions, and for measured speeds
the kind of machine. Correctness is kept as soon as it is known, the speeds in a file of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import autograder
from autograder import chapters, lab
from autograder.course.reference import references, source_notebook
from autograder.judge import Cell, Report, awaits_timing, judge_notebook, time_notebook

FOLDER = ".verdicts"
PACKAGE = Path(autograder.__file__).parent

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Work:
    """All that judging one submission takes, as plain data: it may be done in any process, on any machine.

    solution: the cells of the course's own, None where there are none. course: the version to judge by.
    """

    cells: tuple[Cell, ...]
    chapter: str
    tier: str
    solution: tuple[Cell, ...] | None
    course: str


class Shelf:
    """The verdicts on one chapter's submissions at one tier, on disk."""

    def __init__(self, root: Path, chapter: str, tier: str) -> None:
        solution = source_notebook(chapter, root)
        self._folder = Path(root) / FOLDER / chapter
        self._common = {
            "chapter": chapter,
            "tier": tier,
            "course": course_version() + (_digest(solution.read_text("utf-8")) if solution else ""),
        }
        cells = references(root)(chapters.load(chapter).exercises[0].name)
        self._solution = None if cells is None else tuple(cells)

    def work(self, cells: Sequence[Cell]) -> Work:
        """What there is to do for a submission."""
        common = self._common
        return Work(tuple(cells), common["chapter"], common["tier"], self._solution, course_version())

    def judged(self, work: Work) -> Report | None:
        """The kept verdict on its correctness: complete, or still awaiting its speeds."""
        return self._read(self._key(work, ""))

    def whole(self, work: Work, *, measure: bool, machines: Callable[[], Sequence[str]]) -> tuple[Report, str] | None:
        """The kept verdict with all it needs, and the kind of machine that measured ("" where none did).

        machines() are the kinds whose measured speeds count; it is asked only when something was to be measured.
        """
        report = self.judged(work)
        if report is None or not (measure and awaits(report)):
            return report and (report, "")
        found = ((self._read(self._key(work, machine)), machine) for machine in machines())
        return next((pair for pair in found if pair[0]), None)

    def keep(self, work: Work, report: Report, machine: str = "") -> None:
        """Keep a verdict; with the kind of machine where its speeds were measured, if they were."""
        key = self._key(work, machine)
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{platform.node()}-{os.getpid()}")
        partial.write_text(json.dumps({"key": key, "report": report.to_json()}, indent=1))
        partial.replace(path)

    def _key(self, work: Work, machine: str) -> dict[str, str]:
        return {"submission": submission_digest(work.cells)} | self._common | {"machine": machine}

    def _path(self, key: dict[str, str]) -> Path:
        return self._folder / f"{_digest(*key.values())}.json"

    def _read(self, key: dict[str, str]) -> Report | None:
        kept = read_kept(self._path(key))
        return None if kept is None else kept[1]


def read_kept(path: Path) -> tuple[dict[str, str], Report] | None:
    """(what the verdict is of, the verdict) in one file; None where there is none that can be read."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        return kept["key"], Report.from_json(kept["report"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def report(
    cells: Sequence[Cell],
    chapter: str,
    root: Path,
    *,
    tier: str,
    measure: bool = True,
    machine: str = "",
    progress: Progress | None = None,
) -> Report:
    """The marks of these cells: those on disk, or (when there are none) newly judged and kept.

    machine: the kind of machine whose measured speeds count; this one by default.
    """
    shelf = Shelf(root, chapter, tier)
    work = shelf.work(cells)
    if found := shelf.whole(work, measure=measure, machines=lambda: [machine or machine_class()]):
        return found[0]
    made = shelf.judged(work)
    if made is None:
        made = judged(work, progress=progress)
        shelf.keep(work, made)
    if measure and awaits(made):
        made = timed(work, made, progress=progress)
        shelf.keep(work, made, machine_class())
    return made


def judged(work: Work, *, threads: int | None = None, progress: Progress | None = None) -> Report:
    """The verdict without speeds, made here and now, while nobody on this machine measures."""
    with _grading_lock(progress, shared=True):
        return judge_notebook(
            work.cells,
            chapters.load(work.chapter),
            tier=work.tier,
            measure=False,
            threads=threads,
            progress=progress,
        )


def timed(work: Work, report: Report, *, progress: Progress | None = None) -> Report:
    """The verdict with its speeds, measured while no other grading on this machine judges, saves or measures."""
    with _grading_lock(progress):
        return time_notebook(
            work.cells,
            chapters.load(work.chapter),
            report,
            reference=lambda name: work.solution,
            progress=progress,
        )


def saving() -> contextlib.AbstractContextManager[None]:
    """Wait until nobody on this machine measures, and keep others from it meanwhile."""
    return _grading_lock(None, shared=True)


@contextlib.contextmanager
def one_writer(root: Path) -> Iterator[None]:
    """Wait for other gradings of this course to save their student; free again however this process ends."""
    folder = Path(root) / FOLDER
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def awaits(report: Report) -> bool:
    """Whether speeds are still to be measured."""
    return any(awaits_timing(verdict) for verdict in report.verdicts)


@contextlib.contextmanager
def _grading_lock(progress: Progress | None, *, shared: bool = False) -> Iterator[None]:
    """Measuring holds the machine (or, where a process sees only one, the GPU) alone; all else shares it."""
    tell = progress or (lambda text, fraction: None)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    name = "grading" + "".join(c if c.isalnum() else "-" for c in f"-{visible}" if visible)
    waiting = "waiting for another grading on this machine"
    with lab.cache.one_at_a_time(name, lambda: tell(waiting, 0.0), shared=shared):
        yield


@cache
def course_version() -> str:
    """The package's version and a digest of its code, so that marks are never those of an older course."""
    files = sorted(path for path in PACKAGE.rglob("*.py") if PACKAGE / "tests" not in path.parents)
    version = metadata.version("making-generation-faster")
    return f"{version}-{_digest(*(path.read_text('utf-8') for path in files))}"


@cache
def machine_class() -> str:
    """The processor and how many of its cores may be used: what a measured speed depends on."""
    return f"{lab.hardware.processor_name()} x{lab.hardware.usable_cores()}"


def submission_digest(cells: Sequence[Cell]) -> str:
    """What tells the code of two submissions apart."""
    return _digest(*(f"{cell.number}\n{cell.source}" for cell in cells))


def _digest(*texts: str) -> str:
    whole = hashlib.sha256()
    for text in texts:
        whole.update(f"{len(text)}:{text}".encode("utf-8", "replace"))
    return whole.hexdigest()[:24]
