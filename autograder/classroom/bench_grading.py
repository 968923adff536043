"""`make bench-grading`: seconds and memory per submission, with plain nbgrader and with this course's pipeline.

Both grade the same submissions in courses of their own, a block at a time and in turn: nbgrader with its stock
preprocessors, which runs every cell and with it the checks in a kernel, and `autograder grade`. Then `autograder
grade` alone, speed left out, with one worker and with two. It is no test: the numbers are this machine's.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import nbformat
import psutil
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.utils import is_solution
from rich.console import Console
from rich.table import Table

from autograder import chapters, lab
from autograder.course.reference import repository, source_notebook
from autograder.course.release import find_alembic
from autograder.judge.process import kill_all, tree
from autograder.lab import LabError

KINDS = ("reference", "wrong", "right", "wrong", "untouched", "reference", "wrong", "right", "wrong", "half-way")
BLOCK = 5  # submissions that one side grades before it is the other's turn
SAMPLE_SECONDS = 0.5  # between looks at the memory, each of which takes some hundredths of a second
JUDGED_BEFORE = ", judged before"
AUTOGRADER = (sys.executable, "-c", "from autograder.cli import main; main()")
LIMIT_SECONDS = 300  # for one submission, on either side
PLAIN = """
c = get_config()
c.CourseDirectory.root = {root!r}
c.Execute.timeout = 300  # of one cell
"""
OURS = """
c.Judge.tier = {tier!r}
c.Judge.measure = {measure}
"""

out = Console(highlight=False)


class BenchmarkError(LabError):
    """One side did not grade what it was given; one sentence."""


@dataclass(frozen=True)
class Run:
    """One command: wall seconds, the most memory its processes held together (bytes), submissions graded."""

    side: str
    seconds: float
    peak_bytes: int
    submissions: int


@dataclass(frozen=True)
class Course:
    """A course in a folder of its own, and the command that grades what lies in its submitted/."""

    side: str
    slug: str
    root: Path
    command: tuple[str, ...]

    def grade(self, notebooks: dict[str, NotebookNode]) -> Run:
        """Hand these in, {student: notebook}, instead of all earlier ones, and grade them."""
        shutil.rmtree(self.root / "submitted", ignore_errors=True)
        for student, notebook in notebooks.items():
            folder = self.root / "submitted" / student / self.slug
            folder.mkdir(parents=True)
            nbformat.write(notebook, folder / f"{self.slug}.ipynb")
        seconds, peak = run(self.command, self.root, LIMIT_SECONDS * len(notebooks))
        if lacking := sorted(notebooks.keys() - self.points().keys()):
            raise BenchmarkError(f"{self.side} has no marks for {', '.join(lacking)}")
        return Run(self.side, seconds, peak, len(notebooks))

    def points(self) -> dict[str, float]:
        """Automatic points in the gradebook, by student."""
        with Gradebook(f"sqlite:///{self.root}/gradebook.db") as gradebook:
            return {
                entry.student.id: sum(
                    grade.auto_score or 0.0 for notebook in entry.notebooks for grade in notebook.grades
                )
                for entry in gradebook.assignment_submissions(self.slug)
            }


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything was graded and timed, 2 when not."""
    options = _options(arguments)
    if options.cores:
        psutil.Process().cpu_affinity(psutil.Process().cpu_affinity()[: options.cores])
    try:
        found = measured(options)
    except LabError as error:
        print(f"bench-grading: {error}", file=sys.stderr)
        return 2
    out.print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def measured(options: argparse.Namespace) -> dict:
    """Everything that was timed, as plain data."""
    root = repository()
    if root is None:
        raise BenchmarkError("this needs the course's repository; the package alone is installed here")
    slug = next(slug for slug in chapters.SLUGS if slug.split("_")[0] == options.chapter)
    handed_in = submissions(slug, 1 + options.submissions, root)
    card = lab.machine_card()
    find_alembic()
    with tempfile.TemporaryDirectory(prefix="bench-grading-") as folder:
        os.environ["AUTOGRADER_PROGRESS"] = f"{folder}/progress.json"  # checks in a kernel are nobody's progress
        first = _ours(slug, Path(folder, "ours"), root, options.tier, workers=1)
        sides = (_plain(slug, Path(folder, "plain"), root), first)
        runs = in_turn(sides, handed_in, BLOCK)
        several = [
            _ours(slug, Path(folder, f"workers-{n}"), root, options.tier, measure=False, workers=n)
            for n in (1, 2)
            if _knows_workers()
        ]
        scaling = in_turn(several, handed_in, -(-options.submissions // 2), again=True)
        points = {course.side: course.points() for course in sides}
    return {
        "slug": slug,
        "tier": options.tier,
        "machine": card.to_json(),
        "runs": [asdict(each) for each in runs],
        "workers": [asdict(each) for each in scaling],
        "points": points,
    }


def in_turn(
    courses: Sequence[Course], handed_in: dict[str, NotebookNode], block: int, again: bool = False
) -> list[Run]:
    """Grade in blocks, each course in its turn and another one first each time. The first student's counts not.

    `again` grades every block a second time, unchanged: what that takes is everything but judging.
    """
    students = list(handed_in)
    runs = []
    for course in courses:
        out.print(f"{course.side}: a first submission, not counted")
        course.grade({students[0]: handed_in[students[0]]})
    for number, start in enumerate(range(1, len(students), block)):
        chosen = {student: handed_in[student] for student in students[start : start + block]}
        for course in courses[number % 2 :] + courses[: number % 2]:
            runs.append(course.grade(chosen))
            if again:
                runs.append(replace(course.grade(chosen), side=course.side + JUDGED_BEFORE))
            out.print(f"{course.side}: {len(chosen)} submissions in {runs[-1 - again].seconds:.1f} s")
    return runs


def table(found: dict) -> Table:
    """What was found, for a person: a row per side, then per number of workers."""
    drawn = Table(box=None, padding=(0, 1), title=f"{found['slug']}, tier {found['tier']}")
    for heading in ("", "submissions", "seconds each", "peak memory, MB", "times the first"):
        drawn.add_column(heading, justify="right" if heading else "left")
    for rows in (found["runs"], found["workers"]):
        each = seconds_each(rows)
        for side, seconds in each.items():
            mine = [row for row in rows if row["side"] == side]
            peak = max(row["peak_bytes"] for row in mine) / 1e6
            count = sum(row["submissions"] for row in mine)
            times = seconds / next(iter(each.values()))
            drawn.add_row(side, str(count), f"{seconds:.2f}", f"{peak:,.0f}", f"{times:.2f}")
        if scaled := scaling_of(each):
            drawn.add_row("judging alone, from 1 worker to 2", "", "", "", f"{scaled:.2f} times as fast")
    return drawn


def scaling_of(each: dict[str, float]) -> float | None:
    """How many times as fast two workers judge as one, with the time left out that judges nothing."""
    try:
        one, two = (each[f"{n} worker(s)"] - each[f"{n} worker(s)" + JUDGED_BEFORE] for n in (1, 2))
    except KeyError:
        return None
    return one / two


def seconds_each(rows: list[dict]) -> dict[str, float]:
    """Wall seconds per submission, over all runs of a side."""
    sides = dict.fromkeys(row["side"] for row in rows)
    return {
        side: sum(row["seconds"] for row in rows if row["side"] == side)
        / sum(row["submissions"] for row in rows if row["side"] == side)
        for side in sides
    }


def submissions(slug: str, count: int, root: Path) -> dict[str, NotebookNode]:
    """{student: the released notebook with answers of one of the KINDS filled in}, no two alike."""
    released = nbformat.read(root / "release" / slug / f"{slug}.ipynb", 4)
    solved = {name: cell.source for name, cell in _answer_cells(nbformat.read(source_notebook(slug, root), 4))}
    kept = _kept_answers(root / "autograder" / "tests" / "answers" / slug.split("_")[0])
    return {f"student-{n:02}": _filled(released, n, KINDS[n % len(KINDS)], solved, kept) for n in range(count)}


def _filled(released: NotebookNode, number: int, kind: str, solved: dict, kept: dict) -> NotebookNode:
    notebook = copy.deepcopy(released)
    for place, (name, cell) in enumerate(_answer_cells(notebook)):
        answered = kind != "untouched" and (kind != "half-way" or place % 2)
        answers = kept.get((name, kind), [])
        if answered:
            cell.source = answers[number % len(answers)] if answers else solved[name]
        if cell.cell_type == "code":
            cell.source += f"\n# handed in by student {number}"  # so that no verdict serves two of them
    return notebook


def _answer_cells(notebook: NotebookNode) -> list[tuple[str, NotebookNode]]:
    """(name of the exercise or question, the cell it is answered in), in order."""
    cells = [cell for cell in notebook.cells if is_solution(cell)]
    return [(cell.metadata.nbgrader["grade_id"].removesuffix("_solution"), cell) for cell in cells]


def _kept_answers(folder: Path) -> dict[tuple[str, str], list[str]]:
    """The answers that the tests keep: (exercise, "right" or "wrong") -> their code."""
    kept: dict[tuple[str, str], list[str]] = {}
    for path in sorted(folder.glob("*/*.py")):
        kind = ast.get_docstring(ast.parse(path.read_text("utf-8"))).split(":")[0]
        kept.setdefault((path.parent.name, kind), []).append(path.read_text("utf-8"))
    return kept


def run(command: Sequence[str], folder: Path, limit: float) -> tuple[float, int]:
    """(wall seconds, most bytes of memory held together) of a command and all it starts.

    Raises BenchmarkError with its last line when it fails (status 2 or more), or after `limit` seconds.
    """
    started, peak = time.monotonic(), 0
    with tempfile.TemporaryFile() as log:
        process = psutil.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                if time.monotonic() - started > limit:
                    raise BenchmarkError(f"`{' '.join(command)}` did not end within {limit:.0f} s")
                peak = max(peak, sum(map(_memory, tree(process.pid))))
                with contextlib.suppress(psutil.TimeoutExpired):
                    process.wait(SAMPLE_SECONDS)
        finally:
            kill_all(lambda: tree(process.pid))
        seconds = time.monotonic() - started
        if process.returncode not in (0, 1):
            log.seek(0)
            last = log.read().decode("utf-8", "replace").strip().splitlines()[-1:]
            raise BenchmarkError(f"`{' '.join(command)}` failed: {' '.join(last)}")
    return seconds, peak


def _memory(process: psutil.Process) -> int:
    """Bytes of a process, shared pages by its part in them where that can be known."""
    try:
        information = process.memory_full_info()
    except psutil.AccessDenied:
        information = process.memory_info()
    except psutil.Error:
        return 0
    return getattr(information, "pss", information.rss)


def _plain(slug: str, folder: Path, root: Path) -> Course:
    """A course that knows nothing of ours but what its notebooks import."""
    config = PLAIN.format(root=str(folder))
    _make(slug, folder, root, config)
    nbgrader = (sys.executable, "-m", "nbgrader")
    run((*nbgrader, "generate_assignment", slug, "--force"), folder, LIMIT_SECONDS)
    return Course("plain nbgrader", slug, folder, (*nbgrader, "autograde", slug, "--force"))


def _ours(slug: str, folder: Path, root: Path, tier: str, *, measure: bool = True, workers: int) -> Course:
    config = (root / "nbgrader_config.py").read_text("utf-8") + OURS.format(tier=tier, measure=measure)
    _make(slug, folder, root, config)
    command = (*AUTOGRADER, "grade", slug, "--course", str(folder), "--json")
    if _knows_workers():
        command += ("--workers", str(workers))
    return Course("autograder grade" if measure else f"{workers} worker(s)", slug, folder, command)


def _make(slug: str, folder: Path, root: Path, config: str) -> None:
    source = folder / "source" / slug
    source.mkdir(parents=True)
    shutil.copy(source_notebook(slug, root), source)
    (folder / "nbgrader_config.py").write_text(config, "utf-8")


@cache
def _knows_workers() -> bool:
    said = subprocess.run((*AUTOGRADER, "grade", "--help"), capture_output=True, text=True, timeout=120)
    return "--workers" in said.stdout


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chapter", default="01", help="the chapter's number")
    parser.add_argument("--submissions", type=int, default=20)
    parser.add_argument("--tier", default="sandbox", help="of our side: process, sandbox or node")
    parser.add_argument("--cores", type=int, help="use only so many cores, on all sides")
    parser.add_argument("--json", type=Path, help="write everything there, too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
