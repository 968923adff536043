"""The course keeps its invariants, and each of them notices when it is broken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.course import invariants, lessons
from autograder.course.invariants import INVARIANTS, course_of, proofs_of
from autograder.course.reference import repository

ROOT = repository()
SLUG = "01_prefill_and_decode"
LESSON, SOURCE, RELEASE = f"notebooks/{SLUG}.ipynb", f"source/{SLUG}/{SLUG}.ipynb", f"release/{SLUG}/{SLUG}.ipynb"
ANSWERS = "autograder/tests/answers/01/latency_metrics"

COURSE = course_of(ROOT)
SLUGS = [chapter.slug for chapter in COURSE.chapters]


@pytest.mark.parametrize("invariant", INVARIANTS, ids=lambda i: i.name)
def test_the_course_keeps(invariant):
    finding = invariant.look(COURSE)
    assert finding.ok, f"{finding.detail}\nfix: {finding.fix}"


def text(path: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """A breakage of one text file."""

    def apply(root: Path) -> None:
        before = (root / path).read_text()
        after = change(before)
        assert after != before, "the breakage changed nothing"
        (root / path).write_text(after)

    return apply


def new(path: str, content: str) -> Callable[[Path], None]:
    """A breakage by one file more."""

    def apply(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)

    return apply


def gone(path: str) -> Callable[[Path], None]:
    """A breakage by one file less."""
    return lambda root: (root / path).unlink()


def notebook(path: str, change: Callable[[dict], object]) -> Callable[[Path], None]:
    """A breakage of one notebook."""

    def apply(root: Path) -> None:
        content = json.loads((root / path).read_text())
        change(content)
        (root / path).write_text(json.dumps(content))

    return apply


def cell(content: dict, grade_id: str) -> dict:
    """The cell with this grade id."""
    return next(c for c in content["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def code(content: dict) -> dict:
    return next(c for c in content["cells"] if c["cell_type"] == "code")


def markdown(source: str) -> dict:
    return {"cell_type": "markdown", "id": "broken", "metadata": {}, "source": source}


def regrade(which: str, **changes) -> Callable[[dict], object]:
    return lambda content: cell(content, which)["metadata"]["nbgrader"].update(changes)


def solution_pasted(root: Path) -> None:
    """Put the longest line of a solution into the release's text."""
    answer = "".join(cell(json.loads((root / SOURCE).read_text()), "latency_metrics_solution")["source"])
    solution = answer.split("### BEGIN SOLUTION")[1].split("### END SOLUTION")[0]
    line = max(solution.splitlines(), key=len)
    notebook(RELEASE, lambda n: n["cells"].append(markdown(f"Try this:\n\n{line}")))(root)


BROKEN_FILES = [
    ("every chapter has its files", "no release", gone(RELEASE)),
    ("every chapter has its files", "no lesson", gone(LESSON)),
    ("every chapter has its files", "data handed to students", new(f"source/{SLUG}/key.json", "{}")),
    ("notebooks are in the agreed form", "half written", text(LESSON, lambda t: t[: len(t) // 2])),
    ("notebooks are in the agreed form", "no cell ids", notebook(LESSON, lambda n: [c.pop("id") for c in n["cells"]])),
    ("notebooks are in the agreed form", "a cell twice", notebook(LESSON, lambda n: n["cells"].append(n["cells"][1]))),
    ("notebooks are in the agreed form", "an old format", notebook(LESSON, lambda n: n.update(nbformat_minor=4))),
    ("notebooks are in the agreed form", "another kernel", text(SOURCE, lambda t: t.replace('"python3"', '"mine"'))),
    ("notebooks are in the agreed form", "another chapter", text(SOURCE, lambda t: t.replace(f'"{SLUG}"', '"00_x"'))),
    ("no outputs, no execution counts", "a count", notebook(SOURCE, lambda n: code(n).update(execution_count=3))),
    (
        "no outputs, no execution counts",
        "an output",
        notebook(LESSON, lambda n: code(n).update(outputs=[{"output_type": "stream", "name": "stdout", "text": "2"}])),
    ),
    ("release/ is what source/ generates", "edited by hand", text(RELEASE, lambda t: t.replace("points", "marks", 1))),
    ("no solution text in release/", "a line of one pasted", solution_pasted),
    (
        "one H1 per notebook, headings in order",
        "two H1",
        notebook(LESSON, lambda n: n["cells"].append(markdown("# A"))),
    ),
    (
        "one H1 per notebook, headings in order",
        "a level skipped",
        notebook(LESSON, lambda n: n["cells"].append(markdown("## A\n\n#### B"))),
    ),
    (
        "every figure is described",
        "pyplot in a lesson",
        notebook(LESSON, lambda n: code(n).update(source="import matplotlib.pyplot as plt")),
    ),
    (
        "every figure is described",
        "no words",
        new("autograder/lab/draw/new.py", "def draw(figure):\n    show(figure)\n"),
    ),
    (
        "every figure is described",
        "empty",
        new("autograder/lab/draw/new.py", 'def draw(figure):\n    show(figure, "")\n'),
    ),
    (
        "grade ids are the exercises' names",
        "misspelt",
        notebook(SOURCE, regrade("latency_metrics", grade_id="latency")),
    ),
    (
        "grade ids are the exercises' names",
        "answer cell renamed",
        notebook(SOURCE, regrade("latency_metrics_solution", grade_id="answer")),
    ),
    (
        "grade ids are the exercises' names",
        "in another order",
        notebook(SOURCE, lambda n: n["cells"].reverse()),
    ),
    (
        "a check cell only checks",
        "an expected value",
        notebook(SOURCE, lambda n: cell(n, "latency_metrics").update(source='"""x"""\nassert latency_metrics(0, [1])')),
    ),
    (
        "a check cell only checks",
        "another exercise",
        notebook(SOURCE, lambda n: cell(n, "latency_metrics").update(source='"""x"""\ncheck("time_calls")')),
    ),
    ("points agree everywhere", "a cell's points", notebook(SOURCE, regrade("latency_metrics", points=6))),
    ("points agree everywhere", "a heading", text(SOURCE, lambda t: t.replace("(5 points)", "(4 points)", 1))),
    ("points agree everywhere", "README", text("README.md", lambda t: t.replace("20 + 5", "19 + 5"))),
    (
        "wrong and right answers are kept",
        "no right one",
        lambda root: [p.unlink() for p in (root / ANSWERS).glob("r*")],
    ),
    ("wrong and right answers are kept", "none", lambda root: shutil.rmtree(root / ANSWERS)),
    (
        "import rules of the house hold",
        "lab knows the judge",
        new("autograder/lab/x.py", "import autograder.judge.wire\n"),
    ),
    (
        "import rules of the house hold",
        "relatively",
        new("autograder/lab/draw/x.py", "def f():\n    from ...judge import Judge\n"),
    ),
    (
        "import rules of the house hold",
        "the judge knows a chapter",
        new("autograder/judge/x.py", "from autograder import chapters\n"),
    ),
    (
        "import rules of the house hold",
        "the judge asks itself",
        new("autograder/judge/x.py", "from autograder import check\n"),
    ),
    (
        "import rules of the house hold",
        "somebody needs the command",
        new("autograder/course/x.py", "import autograder.cli\n"),
    ),
    (
        "import rules of the house hold",
        "the package is heavy",
        text("autograder/__init__.py", lambda t: t + "\nfrom autograder.course import live\n"),
    ),
    ("import rules of the house hold", "the index is heavy", new("autograder/chapters/x.py", "import torch\n")),
    ("import rules of the house hold", "a careless name", new("autograder/lab/utils.py", "")),
    ("ruff is content", "unused", new("autograder/x.py", "import os\n")),
    ("ruff is content", "unformatted", new("autograder/x.py", "x = {'a':1}\n")),
    ("ruff is content", "in a notebook", notebook(LESSON, lambda n: code(n).update(source="import os; import re"))),
]


@pytest.mark.parametrize(("name", "how", "breakage"), BROKEN_FILES, ids=lambda v: v if isinstance(v, str) else "")
def test_a_broken_file_is_noticed(name: str, how: str, breakage: Callable[[Path], None], tmp_path: Path):
    for part in ("notebooks", "source", "release", "autograder", "README.md", "pyproject.toml"):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, tmp_path / part)
    breakage(tmp_path)
    finding = named(name).look(course_of(tmp_path))
    assert not finding.ok and finding.detail and finding.fix
    assert "could not be checked" not in finding.detail


class TwoWords:
    """An exercise with hints nobody can use."""

    name, points, hints = "latency_metrics", 5, ("Try harder.",)


def scheme(**changes) -> Callable:
    return lambda chapter: replace(chapter, written=tuple(replace(q, **changes) for q in chapter.written))


def point(**changes) -> Callable:
    return lambda chapter: scheme(points=tuple(replace(p, **changes) for p in chapter.written[0].points))(chapter)


BROKEN_CHAPTERS = [
    ("two hints per exercise", "no questions", lambda c: replace(c, exercises=(TwoWords(), *c.exercises[1:]))),
    ("points agree everywhere", "an exercise less", lambda c: replace(c, exercises=c.exercises[1:])),
    ("grade ids are the exercises' names", "twice", lambda c: replace(c, exercises=(*c.exercises, c.exercises[0]))),
    ("mark schemes are in the agreed form", "no points", scheme(points=())),
    ("mark schemes are in the agreed form", "no samples", scheme(samples=())),
    ("mark schemes are in the agreed form", "no counterexample", point(does_not="")),
]


@pytest.mark.parametrize(("name", "how", "breakage"), BROKEN_CHAPTERS, ids=lambda v: v if isinstance(v, str) else "")
def test_a_broken_chapter_is_noticed(name: str, how: str, breakage: Callable):
    broken = tuple(breakage(chapter) if chapter.slug == SLUG else chapter for chapter in COURSE.chapters)
    finding = named(name).look(replace(COURSE, chapters=broken))
    assert not finding.ok and "could not be checked" not in finding.detail


def test_full_marks_no_marks_and_run_times_are_proofs_of_every_notebook():
    """That the real ones hold is shown by test_cli and test_notebooks."""
    proved = [proof.name for proof in proofs_of(COURSE)]
    assert len(proved) == len(COURSE.paths)
    assert [path for path in COURSE.paths if not any(name.startswith(f"{path} ") for name in proved)] == []


def test_a_solution_without_marks_and_a_release_with_them_are_noticed(tmp_path: Path):
    slug = "00_measure_honestly"
    shutil.copytree(ROOT / "source" / slug, tmp_path / "release" / slug)
    shutil.copytree(ROOT / "release" / slug, tmp_path / "source" / slug)
    course = replace(course_of(tmp_path), chapters=COURSE.chapters[:1])
    solved, untouched = (proof.run(lambda text, fraction: None) for proof in proofs_of(course))
    assert not solved.ok and "0 of 20" in solved.detail and "time_calls earns 0 of 6" in solved.detail
    assert not untouched.ok and "20 of 20" in untouched.detail and "autograder check release" in untouched.fix


@pytest.mark.parametrize(
    ("source", "told"),
    [("1 / 0", "cell 2 raised ZeroDivisionError"), ("while True: pass", "stopped in cell 2"), ("1", "0 s of 1 s")],
)
def test_a_lesson_that_fails_or_never_ends_is_noticed(source: str, told: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(lessons, "BUDGET_SECONDS", 1.0)
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=lambda *_: {f"{s}.ipynb" for s in SLUGS})
    only = {"cell_type": "code", "id": "only", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
    notebook("notebooks/start_here.ipynb", lambda n: n.update(cells=[markdown("# A"), only]))(tmp_path)
    (proof,) = proofs_of(replace(course_of(tmp_path), chapters=()))
    finding = proof.run(lambda text, fraction: None)
    assert told in finding.detail and finding.ok == (source == "1")


def test_every_invariant_has_a_breakage():
    assert {i.name for i in INVARIANTS} == {name for name, *_ in BROKEN_FILES + BROKEN_CHAPTERS}


def test_verify_reports_every_invariant_and_its_progress():
    told: list[float] = []
    findings = invariants.verify(ROOT, quick=True, progress=lambda text, fraction: told.append(fraction))
    assert [finding.name for finding in findings] == [i.name for i in INVARIANTS]
    assert told == sorted(told) and told[0] >= 0 and told[-1] < 1


def named(name: str):
    return next(invariant for invariant in INVARIANTS if invariant.name == name)
