"""Grading all submissions of an assignment: each is judged, then nbgrader saves it, one student at a time.

Judging needs nothing but a submission's cells and settings, and may run anywhere (`cluster`). Its verdict is kept on
disk (`verdicts`), where nbgrader's own Autograde finds it; there is one writer.
"""

from __future__ import annotations

import contextlib
import copy
import glob
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import NbGrader
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import chdir
from sqlalchemy.exc import SQLAlchemyError
from traitlets.config import Config

from autograder.classroom import cluster, verdicts
from autograder.classroom import submission as submissions
from autograder.classroom.cluster import OnDask, OneByOne
from autograder.classroom.pipeline import Judge, chapter_of, configure, judged_cells
from autograder.classroom.submission import Recorded
from autograder.classroom.verdicts import Progress, Shelf, Work, submission_digest
from autograder.course.release import NbgraderError, quietly, register
from autograder.judge import NotebookError, Report, TierError, Verdict, read_notebook
from autograder.judge.process import BenchError
from autograder.lab import LabError

MOST_BENCH_ERRORS = 3  # in a row
MOST_SAID = 240  # characters of a reason in a table; an exception's text may be a student's novel
BUSY_SECONDS = 60  # how long another program may hold the gradebook


class GradeError(LabError):
    """Nothing can be graded; one sentence."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in: the notebook to judge, or why there is none."""

    student: str
    folder: Path
    notebook: Path | None
    missing: str = ""


@dataclass(frozen=True)
class Graded:
    """One student's automatic marks as they stand in the gradebook, late penalty not taken off.

    outcome: "graded", "review" (a person must look, `reasons` say why) or "failed" (no marks were saved).
    unmarked: written answers that wait for a person. outcomes: exercise -> the judge's word ("full", "died", ...).
    zeros: exercise -> why it earned nothing. unmeasured: exercises whose speed could not be measured.
    late_seconds: after the due date, whether or not the course takes points for it.
    """

    student: str
    points: float
    max_points: float
    outcome: str
    reasons: tuple[str, ...] = ()
    unmarked: tuple[str, ...] = ()
    late_penalty: float = 0.0
    outcomes: dict[str, str] = field(default_factory=dict)
    zeros: dict[str, str] = field(default_factory=dict)
    unmeasured: tuple[str, ...] = ()
    late_seconds: float = 0.0

    @property
    def lost(self) -> dict[str, str]:
        """Exercises whose code ended what it ran in or did not finish -> how."""
        return {name: why for name, why in self.zeros.items() if self.outcomes.get(name) in ("died", "timeout")}

    @property
    def suspicious(self) -> bool:
        """Whether somebody should look."""
        return self.outcome != "graded" or bool(self.lost)


@dataclass(frozen=True)
class Summary:
    """What grading an assignment came to: of these students so many were judged now, so many had not changed."""

    assignment: str
    tier: str
    students: list[Graded] = field(default_factory=list)
    judged: int = field(default=0, compare=False)
    unchanged: int = field(default=0, compare=False)

    @property
    def needs_review(self) -> int:
        """How many students' marks a person must look at."""
        return sum(graded.outcome == "review" for graded in self.students)

    @property
    def status(self) -> int:
        """The command's exit status: 0 all graded, 1 some need review, 2 some could not be graded."""
        outcomes = {graded.outcome for graded in self.students}
        return 2 if "failed" in outcomes else 1 if "review" in outcomes else 0

    def to_json(self) -> dict:
        return asdict(self) | {"status": self.status}


def grade(
    slug: str,
    *,
    root: Path,
    student: str | None = None,
    tier: str | None = None,
    measure: bool | None = None,
    again: bool = False,
    workers: int = 1,
    scheduler: str | None = None,
    progress: Progress | None = None,
    finished: Callable[[Graded], None] | None = None,
) -> Summary:
    """Grade what lies in submitted/STUDENT/SLUG into the course's gradebook.

    tier, measure: instead of those in nbgrader_config.py. again: judge also what has been judged before.
    workers: processes that judge on this machine. scheduler: the address of a Dask cluster that judges instead.
    finished: called with each student's marks as soon as they are saved.
    Raises GradeError when nothing can be graded; what goes wrong with one student is in the summary.
    """
    root = Path(root).resolve()
    config = settings(slug, root, tier=tier, measure=measure)
    course = CourseDirectory(config=config)
    handed_in = find_submissions(slug, course, student)
    grading = _Grading(
        slug=slug,
        root=root,
        config=config,
        course=course,
        recorded=released_cells(slug, root, course),
        pace=Pace(len(handed_in), progress or (lambda text, fraction: None)),
        finished=finished or (lambda graded: None),
    )
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(cluster.existing(scheduler)) if scheduler else None
        kinds = place.machines() if place else None
        to_do = grading.sort(handed_in, lambda: kinds or [verdicts.machine_class()], again=again)
        if place is None:
            place = stack.enter_context(cluster.own(min(workers, to_do.judgings), grading.pace.tell))
        grading.carry_out(to_do, place)
    order = [entry.student for entry in handed_in]
    done = sorted(grading.done, key=lambda graded: order.index(graded.student))
    return Summary(slug, grading.judge.tier, done, grading.judged, grading.unchanged)


@dataclass(frozen=True)
class Case:
    """A submission that has been read: the work of judging it, or why there is nothing to judge."""

    entry: Submission
    work: Work | None = None
    reason: str = ""


@dataclass
class _ToDo:
    """What is left when the submissions have been read, by a key that submissions with the same code share."""

    ready: list[tuple[Case, Report | None, str]] = field(default_factory=list)
    cases: dict[str, list[Case]] = field(default_factory=dict)
    to_judge: dict[str, Work] = field(default_factory=dict)
    to_time: dict[str, tuple[Work, Report]] = field(default_factory=dict)

    @property
    def judgings(self) -> int:
        """How many processes could be at work at once."""
        return len(self.to_judge) or min(1, len(self.to_time))


@dataclass
class _Grading:
    """One run over a class: what it needs, and what has come of it so far."""

    slug: str
    root: Path
    config: Config
    course: CourseDirectory
    recorded: dict[str, Recorded]
    pace: Pace
    finished: Callable[[Graded], None]
    done: list[Graded] = field(default_factory=list)
    judged: int = 0
    unchanged: int = 0
    _shelves: dict[str, Shelf] = field(default_factory=dict)
    _bench_errors: int = 0

    def __post_init__(self) -> None:
        self.judge = Judge(config=self.config)

    def sort(self, handed_in: list[Submission], machines: Callable[[], list[str]], *, again: bool) -> _ToDo:
        """Read every submission, and see what is on the shelf already."""
        to_do = _ToDo()
        for entry in handed_in:
            try:
                case = self._read(entry)
            except Exception as error:
                self._fail(Case(entry), error)
                continue
            if case.work is None:
                to_do.ready.append((case, None, ""))
                continue
            self._file(case, to_do, machines, again=again)
        return to_do

    def _file(self, case: Case, to_do: _ToDo, machines: Callable[[], list[str]], *, again: bool) -> None:
        shelf, key = self._shelf(case.work.chapter), f"{case.work.chapter}/{submission_digest(case.work.cells)}"
        if key not in to_do.cases and not again:
            if whole := shelf.whole(case.work, measure=self.judge.measure, machines=machines):
                self.unchanged += 1
                to_do.ready.append((case, *whole))
                return
            if report := shelf.judged(case.work):
                to_do.to_time[key] = case.work, report
        to_do.cases.setdefault(key, []).append(case)
        if key not in to_do.to_time:
            to_do.to_judge[key] = case.work
        self.judged += 1

    def carry_out(self, to_do: _ToDo, place: OneByOne | OnDask) -> None:
        """Judge, measure and save; each student as soon as nothing is missing."""
        self.pace.begin("judged", len(to_do.to_judge), then=len(to_do.to_time))
        results = place.judging(to_do.to_judge)
        for case, report, machine in to_do.ready:
            self._save(case, report, machine)
        for key, report in results:
            self.pace.step()
            cases, work = to_do.cases[key], to_do.to_judge[key]
            if isinstance(report, Exception):
                self._fail_all(cases, report)
                continue
            self._shelf(work.chapter).keep(work, report)
            if self.judge.measure and verdicts.awaits(report):
                to_do.to_time[key] = work, report
                self.pace.then = len(to_do.to_time)
                continue
            self._save_all(cases, report, "")
        self.pace.begin("measured", len(to_do.to_time))
        for key, made in place.timing(to_do.to_time):
            self.pace.step()
            if isinstance(made, Exception):
                self._fail_all(to_do.cases[key], made)
                continue
            work = to_do.to_time[key][0]
            self._shelf(work.chapter).keep(work, *made)
            self._save_all(to_do.cases[key], *made)

    def _read(self, entry: Submission) -> Case:
        try:
            notebook = restored_notebook(entry, self.recorded)
        except NotebookError as error:
            return Case(entry, reason=str(error))
        chapter = chapter_of(notebook, self.slug)
        return Case(entry, self._shelf(chapter).work(judged_cells(notebook)))

    def _shelf(self, chapter: str) -> Shelf:
        if chapter not in self._shelves:
            self._shelves[chapter] = Shelf(self.root, chapter, self.judge.tier)
        return self._shelves[chapter]

    def _save_all(self, cases: list[Case], report: Report, machine: str) -> None:
        self._bench_errors = 0
        for case in cases:
            self._save(case, report, machine)

    def _save(self, case: Case, report: Report | None, machine: str) -> None:
        self.pace.tell(f"{case.entry.student}: saving", 1.0)
        try:
            with verdicts.saving(), verdicts.one_writer(self.root):
                save(case.entry, self.slug, self.config, machine)
                graded = self._graded(case, report)
        except Exception as error:
            self._fail(case, error)
        else:
            self._finish(graded)

    def _graded(self, case: Case, report: Report | None) -> Graded:
        """A student's marks, read back from the gradebook, with the judge's words."""
        ours = [verdict for verdict in report.verdicts if verdict.name in self.recorded] if report else []
        reasons = (case.reason,) if report is None else tuple(verdict.review for verdict in ours if verdict.review)
        with Gradebook(self.course.db_url, self.course.course_id) as gradebook:
            saved = gradebook.find_submission_notebook(self.slug, self.slug, case.entry.student)
            return Graded(
                case.entry.student,
                sum(grade.score for grade in saved.grades if not self.recorded[grade.name].written),
                _most(self.recorded),
                "review" if reasons else "graded",
                reasons,
                tuple(
                    g.name for g in saved.grades if report and self.recorded[g.name].written and g.needs_manual_grade
                ),
                saved.late_submission_penalty or 0.0,
                {verdict.name: verdict.outcome for verdict in ours},
                {verdict.name: why_nothing(verdict) for verdict in ours if not verdict.points and not verdict.review},
                tuple(v.name for v in ours if v.speed and not v.speed.get("measurable", True)),
                saved.assignment.total_seconds_late,
            )

    def _fail_all(self, cases: list[Case], error: Exception) -> None:
        """No marks for these. A machine that fails time and again before anything has come of it is nobody's work."""
        if isinstance(error, TierError):
            raise GradeError(f"Nobody else was graded: {error}")
        if isinstance(error, BenchError):
            self._bench_errors += 1
            if self._bench_errors == MOST_BENCH_ERRORS:
                raise GradeError(f"Grading stopped, and nobody lost a mark: {error}")
        for case in cases:
            self._fail(case, error)

    def _fail(self, case: Case, error: Exception) -> None:
        why = str(error) or type(error).__name__
        self._finish(Graded(case.entry.student, 0.0, _most(self.recorded), "failed", (why,)))

    def _finish(self, graded: Graded) -> None:
        self.done.append(graded)
        self.pace.done += 1
        self.pace.tell("", 1.0)  # nobody is being saved any more
        self.finished(graded)


class Pace:
    """How far a grading is, and how long it may still take, from what its work has taken so far."""

    def __init__(self, students: int, progress: Progress) -> None:
        self.students, self.done, self.then = students, 0, 0
        self._progress = progress
        self.begin("read", 0)

    def begin(self, what: str, of: int, *, then: int = 0) -> None:
        """A kind of work starts, with so many pieces; `then` is how many have to be measured after it."""
        self._what, self._of, self.then = what, of, then
        self._steps, self._since = 0, time.monotonic()

    def step(self) -> None:
        """One more piece is done."""
        self._steps += 1
        self.tell("", 1.0)

    def tell(self, text: str, fraction: float) -> None:
        """Pass on a sentence about one piece of work, of which this fraction is done."""
        so_far = f"{self.done} of {self.students} graded"
        if self._of:
            so_far += f", {self._steps} of {self._of} {self._what}{self._left()}"
        self._progress(f"{so_far} · {text}" if text else so_far, self.done / self.students)

    def _left(self) -> str:
        if not self._steps:
            return ""
        each = (time.monotonic() - self._since) / self._steps
        after = f", then {self.then} to measure" if self.then and self._what == "judged" else ""
        return f", about {_minutes(each * (self._of - self._steps))} left{after}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def why_nothing(verdict: Verdict) -> str:
    """Why an exercise earned no points, in the words of a table: "not answered", "died: ...", "timeout: ..."."""
    if verdict.outcome == "untouched":
        return "not answered"
    said = verdict.note or next((rung.message for rung in verdict.rungs if rung.message), "nothing was right")
    said = re.sub(r"^your code (did not come back: )?|; the same value everywhere.*", "", said.splitlines()[0])
    return f"{verdict.outcome}: {brief(said)}" if verdict.outcome in ("died", "timeout") else brief(said)


def brief(said: str) -> str:
    """As much of a sentence as a table's cell takes."""
    return said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]}..."


def settings(slug: str, root: Path, *, tier: str | None, measure: bool | None) -> Config:
    """The settings to grade an assignment with. Raises GradeError when the tier is not to be had here."""
    config = configuration(slug, root)
    if tier is not None:
        config.Judge.tier = tier
    if measure is not None:
        config.Judge.measure = measure
    if sentence := Judge(config=config).refusal():
        raise GradeError(sentence)
    return config


def configuration(slug: str, root: Path) -> Config:
    """The course's nbgrader configuration, with the course's own pipeline in it whatever it says."""
    app = NbGrader(log_level="CRITICAL", raise_config_file_errors=True)
    try:
        with chdir(str(root)):
            app.initialize([])
    except (Exception, SystemExit) as error:
        raise GradeError(f"nbgrader_config.py cannot be used: {error}") from None
    config = copy.deepcopy(app.config)
    configure(config)
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.assignment_id = slug
    config.CourseDirectory.db_url = _patient(CourseDirectory(config=config).db_url)
    return config


def find_submissions(slug: str, course: CourseDirectory, student: str | None = None) -> list[Submission]:
    """What was handed in for an assignment, by student. Raises GradeError when there is nothing."""
    pattern = course.format_path(course.submitted_directory, student or "*", slug)
    found = [_submission(Path(folder), slug) for folder in sorted(glob.glob(pattern)) if Path(folder).is_dir()]
    found = [entry for entry in found if entry.student not in course.student_id_exclude.split(",")]
    if not found:
        whose = f"of {student} " if student else ""
        raise GradeError(f"There is no submission {whose}for {slug}: {pattern} does not exist.")
    return found


def released_cells(slug: str, root: Path, course: CourseDirectory) -> dict[str, Recorded]:
    """The cells of an assignment as its gradebook knows them; it is entered from source/ when it does not."""
    try:
        with verdicts.one_writer(root), Gradebook(course.db_url, course.course_id) as gradebook:
            try:
                return submissions.recorded_cells(gradebook, slug, slug)
            except MissingEntry:
                register(slug, root, course.db_url, course.course_id)
                return submissions.recorded_cells(gradebook, slug, slug)
    except NbgraderError as error:
        raise GradeError(f"The gradebook does not know {slug}, and it cannot be entered: {error}.") from None
    except (OSError, SQLAlchemyError) as error:
        raise GradeError(f"The gradebook cannot be used: {str(error).splitlines()[0]}") from None


def restored_notebook(entry: Submission, recorded: dict[str, Recorded]) -> NotebookNode:
    """What a student handed in, with the cells it was released with. Raises NotebookError, which says why not."""
    if entry.notebook is None:
        raise NotebookError(entry.missing)
    return submissions.restored(submissions.read(entry.notebook), recorded)


def save(entry: Submission, slug: str, config: Config, machine: str = "") -> None:
    """Let nbgrader autograde one student, with the verdict on disk (measured on that kind of machine).

    The caller holds the gradebook. Raises NbgraderError.
    """
    if glob.escape(entry.student) != entry.student:
        raise NbgraderError(f"nbgrader cannot grade the folder {entry.student}: rename it without *, ? and [")
    config = copy.deepcopy(config)
    config.CourseDirectory.student_id = entry.student
    config.Restore.missing = entry.missing
    config.Judge.machine = machine
    with tempfile.TemporaryDirectory() as folder:
        if entry.notebook is None or entry.notebook.stem != slug:
            _copy_under_its_name(entry, slug, Path(folder))
            config.CourseDirectory.submitted_directory = str(Path(folder).resolve())
        with _marks_by_hand_kept(entry.student, slug, config):
            quietly(Autograde, config)


@contextlib.contextmanager
def _marks_by_hand_kept(student: str, slug: str, config: Config) -> Iterator[None]:
    """What a person has marked stays marked while answer and verdict are the same; nbgrader would ask for it again."""
    course = CourseDirectory(config=config)
    marked = Path(course.format_path(course.autograded_directory, student, slug)) / f"{slug}.ipynb"
    seen = _seen_by_the_marker(marked)
    with Gradebook(course.db_url, course.course_id) as gradebook:
        try:
            grades = gradebook.find_submission_notebook(slug, slug, student).grades
        except MissingEntry:
            grades = []
        settled = [g.name for g in grades if g.manual_score is not None and not g.needs_manual_grade]
    yield
    now = _seen_by_the_marker(marked) if settled else {}
    with Gradebook(course.db_url, course.course_id) as gradebook:
        for name in settled:
            if name in now and now[name] == seen.get(name):
                gradebook.find_grade(name, slug, slug, student).needs_manual_grade = False
        gradebook.db.commit()


def _seen_by_the_marker(copy: Path) -> dict[str, list]:
    """By grade id what a person marks in a graded copy: all its text and pictures, or all its code and one report."""
    try:
        cells = read_notebook(copy)["cells"]
    except NotebookError:
        return {}
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    text = [[cell["source"], cell.get("attachments")] for cell in cells if cell["cell_type"] == "markdown"]
    marked = [(cell, cell["metadata"].get("nbgrader", {})) for cell in cells]
    return {
        nbgrader["grade_id"]: [code, cell["outputs"]] if cell["cell_type"] == "code" else text
        for cell, nbgrader in marked
        if nbgrader.get("grade")
    }


def _submission(folder: Path, slug: str) -> Submission:
    """A student's folder: the notebook of the right name, else the only one there is."""
    notebooks = sorted(folder.glob("*.ipynb"))
    right = [path for path in notebooks if path.stem == slug] or notebooks
    if len(right) == 1:
        return Submission(folder.parent.name, folder, right[0])
    missing = f"none of the {len(right)} notebooks handed in is called {slug}.ipynb"
    return Submission(folder.parent.name, folder, None, missing if right else "no notebook was handed in")


def _copy_under_its_name(entry: Submission, slug: str, submitted: Path) -> None:
    """Copy a submission to where nbgrader finds it, its notebook under the name that nbgrader looks for."""
    folder = submitted / entry.student / slug
    shutil.copytree(entry.folder, folder, symlinks=True, ignore=shutil.ignore_patterns("*.ipynb"))
    if entry.notebook is None:
        (folder / f"{slug}.ipynb").touch()
    else:
        shutil.copyfile(entry.notebook, folder / f"{slug}.ipynb", follow_symlinks=False)


def _patient(db_url: str) -> str:
    """The same gradebook, waited for when a formgrader is writing to it."""
    if not db_url.startswith("sqlite") or "timeout=" in db_url:
        return db_url
    return f"{db_url}{'&' if '?' in db_url else '?'}timeout={BUSY_SECONDS}"


def _most(recorded: dict[str, Recorded]) -> float:
    return sum(cell.nbgrader["points"] for cell in recorded.values() if cell.grade and not cell.written)
