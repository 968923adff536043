"""What must always be true of the course, each with the way to mend it: `autograder verify`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import nbformat

from autograder import chapters
from autograder.course import lessons, release
from autograder.course.reference import references
from autograder.exercise import Chapter, Exercise
from autograder.judge import NotebookError, judge_notebook, read_cells, read_notebook

Progress = Callable[[str, float], None]

AUTOMATIC_POINTS, WRITTEN_POINTS = 20, 5
WRONG_ANSWERS, RIGHT_ANSWERS = 3, 1
TELLING = 16  # characters; shorter lines of a solution (`else:`, `return x`) give nothing away
SHOWN = 4  # complaints in a finding's detail

MAY_IMPORT: dict[str, set[str]] = {
    "__init__": {"course"},
    "lab": set(),
    "exercise": set(),
    "chapters": {"lab", "exercise"},
    "judge": {"lab", "exercise"},
    "course": {"lab", "exercise", "chapters", "judge"},
    "classroom": {"lab", "exercise", "chapters", "judge", "course"},
    "cli": {"lab", "exercise", "chapters", "judge", "course", "classroom"},
}
FOR_NOTEBOOKS = ("built", "check", "hint", "progress", "rubric")  # the package's own names, which come from `course`
CARELESS_NAMES = ("utils", "misc", "common", "scripts")


@dataclass(frozen=True)
class Finding:
    """One invariant as found. `detail` says what is wrong, or what was measured; `fix` how to mend it."""

    name: str
    ok: bool
    detail: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Notebook:
    """One notebook of the course. `path` is relative to the repository."""

    path: Path
    content: dict

    @property
    def cells(self) -> list[dict]:
        return self.content["cells"]

    @property
    def code(self) -> list[dict]:
        return [cell for cell in self.cells if cell["cell_type"] == "code"]

    @property
    def graded(self) -> list[dict]:
        return [cell for cell in self.cells if _grading(cell).get("grade")]


@dataclass(frozen=True)
class Course:
    """A repository's files together with the chapters that judge them."""

    root: Path
    chapters: tuple[Chapter, ...]

    @cached_property
    def notebooks(self) -> list[Notebook]:
        """Every notebook of the course that can be read at all."""
        return [notebook for path in self.paths if (notebook := self.read(path))]

    @cached_property
    def paths(self) -> list[Path]:
        """Every notebook file of the course, relative to the repository."""
        found = [p for folder in ("notebooks", "source", "release") for p in (self.root / folder).rglob("*.ipynb")]
        return sorted(path.relative_to(self.root) for path in found if ".ipynb_checkpoints" not in path.parts)

    @cached_property
    def modules(self) -> dict[tuple[str, ...], ast.Module]:
        """{("autograder", "lab", "cache"): its syntax tree}, tests left out."""
        package = self.root / "autograder"
        found = [path.relative_to(self.root) for path in sorted(package.rglob("*.py"))]
        return {
            path.with_suffix("").parts: ast.parse((self.root / path).read_text("utf-8"), str(path))
            for path in found
            if path.parts[1] != "tests"
        }

    def read(self, path: Path) -> Notebook | None:
        try:
            return Notebook(path, read_notebook(self.root / path))
        except NotebookError:
            return None

    def source(self, chapter: Chapter) -> Notebook | None:
        return self.read(_assignment("source", chapter.slug))

    def release(self, chapter: Chapter) -> Notebook | None:
        return self.read(_assignment("release", chapter.slug))

    @property
    def assignments(self) -> Iterator[tuple[Chapter, Notebook]]:
        """(chapter, its source notebook) of those that can be read."""
        for chapter in self.chapters:
            if notebook := self.source(chapter):
                yield chapter, notebook


def verify(root: Path, quick: bool = False, *, progress: Progress | None = None) -> list[Finding]:
    """Every invariant of the course in this repository; `quick` leaves out what runs the model (minutes)."""
    tell = progress or (lambda text, fraction: None)
    course = course_of(root)
    looks = [Proof(invariant.name, lambda _, i=invariant: i.look(course)) for invariant in INVARIANTS]
    looks += [] if quick else proofs_of(course)
    findings = []
    for number, look in enumerate(looks):
        tell(look.name, number / len(looks))
        findings.append(look.run(lambda text, fraction, n=number: tell(text, (n + fraction) / len(looks))))
    return findings


def course_of(root: Path) -> Course:
    """The course in this repository, with the chapters of the package that is running."""
    return Course(Path(root).resolve(), tuple(chapters.load(slug) for slug in chapters.SLUGS))


@dataclass(frozen=True)
class Invariant:
    """Something that needs no model to be checked. `complaints` yields what is wrong, nothing when all is well."""

    name: str
    complaints: Callable[[Course], Iterable[str]]
    fix: str

    def look(self, course: Course) -> Finding:
        try:
            wrong = list(self.complaints(course))
        except Exception as error:  # a course so broken that it cannot be looked at
            wrong = [f"this could not be checked ({type(error).__name__}: {error})"]
        more = [f"and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
        return Finding(self.name, not wrong, "; ".join(wrong[:SHOWN] + more), "" if not wrong else self.fix)


# Files


def files_missing(course: Course) -> Iterator[str]:
    expected = {Path("notebooks", "start_here.ipynb")}
    for chapter in course.chapters:
        expected |= {Path("notebooks", f"{chapter.slug}.ipynb")}
        expected |= {_assignment(folder, chapter.slug) for folder in ("source", "release")}
    for path in sorted(expected - set(course.paths)):
        yield f"{path} is missing"
    for path in sorted((course.root / "source").rglob("*")):  # nbgrader would hand everything there to the students
        relative = path.relative_to(course.root)
        if path.is_file() and relative not in expected and ".ipynb_checkpoints" not in path.parts:
            yield f"{relative} has no place in source/"


def invalid_notebooks(course: Course) -> Iterator[str]:
    unreadable = set(course.paths) - {notebook.path for notebook in course.notebooks}
    yield from (f"{path} is not a notebook" for path in sorted(unreadable))
    slugs = {chapter.slug for chapter in course.chapters}
    for notebook in course.notebooks:
        content, ids = notebook.content, [cell.get("id") for cell in notebook.cells]
        if None in ids or len(set(ids)) < len(ids):  # nbformat would mend that silently
            yield f"{notebook.path} has a cell without an id of its own"
            continue
        try:
            nbformat.validate(content)
        except nbformat.ValidationError as error:
            yield f"{notebook.path}: {str(error).splitlines()[0]}"
            continue
        if (content["nbformat"], content["nbformat_minor"]) != (4, 5):
            yield f"{notebook.path} is not nbformat 4.5"
        if content["metadata"].get("kernelspec", {}).get("name") != "python3":
            yield f"{notebook.path} does not ask for the kernel python3"
        stated = content["metadata"].get("autograder", {}).get("chapter")
        if notebook.path.stem in slugs and stated != notebook.path.stem:
            yield f"{notebook.path} says that its chapter is {stated}"


def outputs(course: Course) -> Iterator[str]:
    for notebook in course.notebooks:
        if any(cell.get("outputs") or cell.get("execution_count") is not None for cell in notebook.code):
            yield f"{notebook.path} was saved with outputs"


def release_differs(course: Course) -> list[str]:
    return release.differences(course.root)


def solutions_shown(course: Course) -> Iterator[str]:
    """Lines that stand only in a solution, found in the release."""
    for chapter, source in course.assignments:
        if not (released := course.release(chapter)):
            continue
        secret, open_to_all = set(), set()
        for cell in source.cells:
            inside, outside = _solution_lines(cell)
            secret, open_to_all = secret | inside, open_to_all | outside
        telling = {line for line in secret - open_to_all if len(line) >= TELLING}
        for cell in released.cells:
            shown = [
                line for line in map(str.strip, _text(cell).splitlines()) if line in telling or "### BEGIN" in line
            ]
            if shown:
                yield f"{released.path} shows {shown[0]!r}"


# Notebooks


def headings_out_of_order(course: Course) -> Iterator[str]:
    for notebook in course.notebooks:
        levels = list(_heading_levels(notebook))
        if levels[:1] != [1] or levels.count(1) != 1:
            yield f"{notebook.path} has {levels.count(1)} H1, and must have one, first"
        for above, below in pairwise(levels):
            if below > above + 1:
                yield f"{notebook.path} goes from an H{above} to an H{below}"


def figures_undescribed(course: Course) -> Iterator[str]:
    """Figures come from lab.draw, whose functions end in show(figure, description)."""
    for notebook in course.notebooks:
        if any(re.search(r"\b(matplotlib|pyplot|plt)\b", _text(cell)) for cell in notebook.code):
            yield f"{notebook.path} draws without lab.draw"
    for name, tree in course.modules.items():
        if name[:3] != ("autograder", "lab", "draw"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom) and "pyplot" in ast.unparse(node):
                yield f"{'.'.join(name)} draws with pyplot, whose figures nobody describes"
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "show" and not _described(node):
                yield f"{'.'.join(name)} shows a figure without a description in line {node.lineno}"


def names_disagree(course: Course) -> Iterator[str]:
    """Grade ids are the exercises' names, in their order; an answer cell's id ends in _solution."""
    ids: Counter[str] = Counter()
    for chapter, notebook in course.assignments:
        found = [(_grading(cell)["grade_id"], cell["cell_type"]) for cell in notebook.graded]
        expected = [(e.name, "code") for e in chapter.exercises] + [(q.name, "markdown") for q in chapter.written]
        if found != expected:
            differing = sorted({name for name, _ in set(found) ^ set(expected)})
            yield f"{notebook.path} and its chapter disagree on {', '.join(differing) or 'the order of exercises'}"
        answers = {_grading(c)["grade_id"] for c in notebook.code if _grading(c).get("solution")}
        expected_answers = {f"{e.name}_solution" for e in chapter.exercises}
        if answers != expected_answers:
            yield f"{notebook.path} has no or another answer cell: {', '.join(sorted(answers ^ expected_answers))}"
        ids.update(_grading(cell)["grade_id"] for cell in notebook.cells if _grading(cell))
    names = Counter(item.name for chapter in course.chapters for item in (*chapter.exercises, *chapter.written))
    for name, count in (ids | names).items():
        if count > 1:
            yield f"{name} stands {count} times"


def check_cells_too_clever(course: Course) -> Iterator[str]:
    """A check cell is a docstring and check("name"): nothing to leak, nothing to tamper with."""
    for _, notebook in course.assignments:
        for cell in notebook.graded:
            name = _grading(cell)["grade_id"]
            if cell["cell_type"] == "code" and not _only_checks(_text(cell), name):
                yield f"{notebook.path}: the check cell of {name} is not a docstring and a check alone"


# Exercises


def points_disagree(course: Course) -> Iterator[str]:
    readme = (course.root / "README.md").read_text("utf-8")
    for chapter in course.chapters:
        written = sum(len(scheme.points) for scheme in chapter.written)
        if (chapter.max_points, written) != (AUTOMATIC_POINTS, WRITTEN_POINTS):
            yield f"{chapter.slug} has {chapter.max_points:g} + {written} points"
        stated = f"{chapter.max_points:g} + {written}"
        rows = [line for line in readme.splitlines() if line.startswith("|") and chapter.slug in line]
        if not any(stated in row for row in rows):
            yield f"README.md's table does not say {stated} points for {chapter.slug}"
    for chapter, notebook in course.assignments:
        worth = {e.name: e.points for e in chapter.exercises} | {q.name: WRITTEN_POINTS for q in chapter.written}
        for cell in notebook.graded:
            name, points = _grading(cell)["grade_id"], _grading(cell)["points"]
            if points != worth.get(name, points):
                yield f"{notebook.path} gives {points:g} points for {name}, its chapter {worth[name]:g}"
        headings = [line for cell in notebook.cells if _is_text(cell) for line in _text(cell).splitlines()]
        for name, points in worth.items():
            titles = [line for line in headings if line.startswith("#") and f"`{name}`" in line]
            if not any(f"({points:g} points)" in title for title in titles):
                yield f"{notebook.path} has no heading with `{name}` and ({points:g} points)"


def hints_missing(course: Course) -> Iterator[str]:
    for exercise in _exercises(course):
        if len(exercise.hints) != 2 or not all("?" in hint for hint in exercise.hints):
            yield f"{exercise.name} has {len(exercise.hints)} hints; two questions are needed"


def answers_missing(course: Course) -> Iterator[str]:
    for chapter in course.chapters:
        for exercise in chapter.exercises:
            folder = course.root / "autograder" / "tests" / "answers" / chapter.slug[:2] / exercise.name
            kinds = Counter(_kind_of_answer(path) for path in folder.glob("*.py"))
            if kinds["wrong"] < WRONG_ANSWERS or kinds["right"] < RIGHT_ANSWERS:
                yield f"{exercise.name} has {kinds['wrong']} wrong and {kinds['right']} right answers"


def schemes_malformed(course: Course) -> Iterator[str]:
    for chapter in course.chapters:
        for scheme in chapter.written:
            complete = all(p.point and p.earns and p.does_not for p in scheme.points)
            samples = [
                len(sample.awarded) == WRITTEN_POINTS and sample.text and sample.why for sample in scheme.samples
            ]
            if len(scheme.points) != WRITTEN_POINTS or not complete:
                yield f"{scheme.name}: {WRITTEN_POINTS} points are needed, each with what earns it and what does not"
            if len(samples) != 2 or not all(samples):
                yield f"{scheme.name}: two samples are needed, each with {WRITTEN_POINTS} flags and the reason"


# Code


def imports_against_the_house(course: Course) -> Iterator[str]:
    for name, tree in course.modules.items():
        room, module = name[1], ".".join(name)
        for node in ast.walk(tree):
            top = node in tree.body
            for other in _rooms_imported(node, name):
                if other != room and other not in MAY_IMPORT.get(room, set()):
                    yield f"{module} imports {other} in line {node.lineno}"
                elif room == "__init__" and top:
                    yield f"{module} imports {other} before anybody asked for it"
            if room == "chapters" and top and _imports_torch(node):
                yield f"{module} imports torch at once: the index of exercises must stay cheap"
        if careless := set(name) & set(CARELESS_NAMES):
            yield f"{module}: {careless.pop()} says nothing about what is in it"


def ruff(course: Course) -> Iterator[str]:
    for arguments in (["check", "--output-format", "concise"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, "."], cwd=course.root, capture_output=True, text=True
        )
        if done.returncode == 0:
            continue
        lines = [line for line in done.stdout.splitlines() if ".py" in line or ".ipynb" in line]
        yield from lines or [(done.stderr.strip().splitlines() or ["ruff failed"])[-1]]


INVARIANTS = (
    Invariant("every chapter has its files", files_missing, "write or remove the file"),
    Invariant("notebooks are in the agreed form", invalid_notebooks, "save it from JupyterLab, or see CONTRIBUTING.md"),
    Invariant("no outputs, no execution counts", outputs, "jupyter nbconvert --clear-output --inplace NOTEBOOK"),
    Invariant("release/ is what source/ generates", release_differs, "autograder release"),
    Invariant(
        "no solution text in release/",
        solutions_shown,
        "put it between ### BEGIN SOLUTION and ### END SOLUTION, then autograder release",
    ),
    Invariant("one H1 per notebook, headings in order", headings_out_of_order, "edit the notebook"),
    Invariant(
        "every figure is described", figures_undescribed, "draw in lab/draw and end in show(figure, description)"
    ),
    Invariant("grade ids are the exercises' names", names_disagree, "edit the cell's metadata in source/"),
    Invariant(
        "a check cell only checks",
        check_cells_too_clever,
        'leave a docstring and check("name"); what is expected belongs into chapters/',
    ),
    Invariant(
        "points agree everywhere", points_disagree, "the exercise's rungs decide; make cells and README.md agree"
    ),
    Invariant("two hints per exercise", hints_missing, "write two questions into the exercise's `hints`"),
    Invariant("wrong and right answers are kept", answers_missing, "add them to autograder/tests/answers/"),
    Invariant("mark schemes are in the agreed form", schemes_malformed, "complete the MarkScheme in chapters/"),
    Invariant("import rules of the house hold", imports_against_the_house, "move the code to the room it belongs to"),
    Invariant("ruff is content", ruff, "ruff check --fix . && ruff format ."),
)


# What runs the model


@dataclass(frozen=True)
class Proof:
    """Something to look at, with a progress function to tell while it takes time."""

    name: str
    run: Callable[[Progress], Finding]


def proofs_of(course: Course) -> list[Proof]:
    """Solutions earn full marks, untouched releases nothing, lessons keep to their time."""
    solved = [(_assignment("source", chapter.slug), chapter, True) for chapter in course.chapters]
    untouched = [(_assignment("release", chapter.slug), chapter, False) for chapter in course.chapters]
    return [
        *(
            Proof(f"{path} earns {'full marks' if full else 'nothing'}", partial(_judged, course, path, chapter, full))
            for path, chapter, full in solved + untouched
        ),
        *(
            Proof(f"{path} runs in its time", partial(_lesson, course, path))
            for path in course.paths
            if path.parts[0] == "notebooks"
        ),
    ]


def _judged(course: Course, path: Path, chapter: Chapter, full: bool, tell: Progress) -> Finding:
    name, started = f"{path} earns {'full marks' if full else 'nothing'}", time.monotonic()
    try:
        cells = read_cells(course.root / path)
    except NotebookError as error:
        return Finding(name, False, str(error), "write it" if full else "autograder release")
    report = judge_notebook(cells, chapter, reference=references(course.root), progress=tell)
    detail = f"{report.points:g} of {report.max_points:g} in {time.monotonic() - started:.0f} s"
    odd = [v for v in report.verdicts if v.points != (v.max_points if full else 0)]
    detail += "".join(f"; {v.name} earns {v.points:g} of {v.max_points:g}" for v in odd)
    return Finding(name, not odd, detail, f"autograder check {path}" if odd else "")


def _lesson(course: Course, path: Path, tell: Progress) -> Finding:
    name, most = f"{path} runs in its time", lessons.PATIENCE * lessons.BUDGET_SECONDS
    try:
        seconds = lessons.run(course.root / path, seconds=most, progress=tell)
    except lessons.LessonError as error:
        return Finding(name, False, str(error), "open it in JupyterLab and run all cells")
    detail = f"{seconds:.0f} s of {lessons.BUDGET_SECONDS:.0f} s"
    return Finding(name, seconds <= most, detail, "" if seconds <= most else "measure less, or something smaller")


# Reading notebooks and code


def _assignment(folder: str, slug: str) -> Path:
    return Path(folder, slug, f"{slug}.ipynb")


def _exercises(course: Course) -> Iterator[Exercise]:
    for chapter in course.chapters:
        yield from chapter.exercises


def _text(cell: dict) -> str:
    return "".join(cell["source"])


def _is_text(cell: dict) -> bool:
    return cell["cell_type"] == "markdown"


def _grading(cell: dict) -> dict:
    return cell["metadata"].get("nbgrader", {})


def _heading_levels(notebook: Notebook) -> Iterator[int]:
    for cell in filter(_is_text, notebook.cells):
        prose = re.sub(r"^(```|~~~).*?^\1", "", _text(cell), flags=re.MULTILINE | re.DOTALL)
        yield from (len(heading) for heading in re.findall(r"^(#{1,6}) ", prose, flags=re.MULTILINE))


def _solution_lines(cell: dict) -> tuple[set[str], set[str]]:
    """(lines that are a solution, all other lines) of a source cell, stripped. A written answer is one as a whole."""
    lines = [line.strip() for line in _text(cell).splitlines()]
    if _is_text(cell):
        return (set(lines), set()) if _grading(cell).get("solution") else (set(), set(lines))
    inside, outside, within = set(), set(), False
    for line in lines:
        if line.startswith("### BEGIN SOLUTION"):
            within = True
        elif line.startswith("### END SOLUTION"):
            within = False
        else:
            (inside if within else outside).add(line)
    return inside, outside


def _only_checks(source: str, name: str) -> bool:
    match ast.parse(source).body:
        case [ast.Expr(ast.Constant(str())), ast.Expr(ast.Call(ast.Name("check"), [ast.Constant(given)], []))]:
            return given == name
    return False


def _described(call: ast.Call) -> bool:
    """Whether show(figure, description) has its second argument, and not an empty text."""
    given = call.args[1:2] + [keyword.value for keyword in call.keywords if keyword.arg == "description"]
    return bool(given) and not (isinstance(given[0], ast.Constant) and not given[0].value)


def _kind_of_answer(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.partition(":")[0].strip()


def _rooms_imported(node: ast.AST, module: tuple[str, ...]) -> Iterator[str]:
    """The rooms of this package that an import statement in `module` names."""
    if isinstance(node, ast.Import):
        targets = [tuple(alias.name.split(".")) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = module[: -node.level] if node.level else ()
        base += tuple(node.module.split(".")) if node.module else ()
        targets = [base] if len(base) > 1 else [(*base, alias.name) for alias in node.names]
    else:
        return
    for target in targets:
        if target[0] == "autograder" and len(target) > 1:
            if target[1] in MAY_IMPORT:
                yield target[1]
            elif target[1] in FOR_NOTEBOOKS:
                yield "course"


def _imports_torch(node: ast.AST) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return any(name.split(".")[0] in ("torch", "transformers") for name in names)
