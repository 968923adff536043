"""Grading all submissions of an assignment: each is judged, then nbgrader saves it, one student at a time.

Judging needs nothing but a file, the released cells and settings, leaves its verdict on disk, and may run anywhere.
Writing is nbgrader's own Autograde, which finds that verdict; there is one writer.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import glob
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import NbGrader
from nbgrader.converters import Autograde
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import chdir
from sqlalchemy.exc import SQLAlchemyError
from traitlets.config import Config

from autograder.classroom import submission as submissions
from autograder.classroom import verdicts
from autograder.classroom.pipeline import Judge, chapter_of, configure, judged_cells
from autograder.classroom.submission import Recorded
from autograder.course.release import NbgraderError, quietly, register
from autograder.judge import NotebookError, Report
from autograder.lab import LabError

Progress = Callable[[str, float], None]


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
    unmarked: written answers that wait for a person.
    """

    student: str
    points: float
    max_points: float
    outcome: str
    reasons: tuple[str, ...] = ()
    unmarked: tuple[str, ...] = ()
    late_penalty: float = 0.0


@dataclass(frozen=True)
class Summary:
    """What grading an assignment came to."""

    assignment: str
    tier: str
    students: list[Graded] = field(default_factory=list)

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
    progress: Progress | None = None,
) -> Summary:
    """Grade what lies in submitted/STUDENT/SLUG into the course's gradebook.

    tier, measure: instead of those in nbgrader_config.py. again: judge also what has been judged before.
    Raises GradeError when nothing can be graded; what goes wrong with one student is in the summary.
    """
    root = Path(root).resolve()
    tell = progress or (lambda text, fraction: None)
    config = settings(slug, root, tier=tier, measure=measure)
    course = CourseDirectory(config=config)
    handed_in = find_submissions(slug, course, student)
    recorded = released_cells(slug, root, course)
    judge = Judge(config=config)
    done: list[Graded] = []
    for entry in handed_in:

        def inner(text: str, fraction: float, entry: Submission = entry) -> None:
            tell(f"{entry.student}: {text}", (len(done) + fraction) / len(handed_in))

        inner("reading", 0.0)
        try:
            report, reason = judge_submission(
                entry, recorded, slug, root, judge.tier, judge.measure, again=again, progress=inner
            )
            inner("saving", 1.0)
            save(entry, slug, root, config)
            done.append(_graded(entry, slug, course, recorded, report, reason))
        except Exception as error:
            why = str(error) or type(error).__name__
            done.append(Graded(entry.student, 0.0, _most(recorded), "failed", (why,)))
    return Summary(slug, judge.tier, done)


def settings(slug: str, root: Path, *, tier: str | None, measure: bool | None) -> Config:
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
    if tier is not None:
        config.Judge.tier = tier
    if measure is not None:
        config.Judge.measure = measure
    if sentence := Judge(config=config).refusal():
        raise GradeError(sentence)
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
        with _one_writer(root), Gradebook(course.db_url, course.course_id) as gradebook:
            try:
                return submissions.recorded_cells(gradebook, slug, slug)
            except MissingEntry:
                register(slug, root, course.db_url, course.course_id)
                return submissions.recorded_cells(gradebook, slug, slug)
    except NbgraderError as error:
        raise GradeError(f"The gradebook does not know {slug}, and it cannot be entered: {error}.") from None
    except (OSError, SQLAlchemyError) as error:
        raise GradeError(f"The gradebook cannot be used: {str(error).splitlines()[0]}") from None


def judge_submission(
    entry: Submission,
    recorded: dict[str, Recorded],
    slug: str,
    root: Path,
    tier: str,
    measure: bool,
    *,
    again: bool = False,
    progress: Progress | None = None,
) -> tuple[Report | None, str]:
    """(report, "") with the verdict left on disk, or (None, why there is nothing to judge)."""
    if entry.notebook is None:
        return None, entry.missing
    try:
        notebook = submissions.restored(submissions.read(entry.notebook), recorded)
    except NotebookError as error:
        return None, str(error)
    report = verdicts.report(
        judged_cells(notebook),
        chapter_of(notebook, slug),
        root,
        tier=tier,
        measure=measure,
        again=again,
        progress=progress,
    )
    return report, ""


def save(entry: Submission, slug: str, root: Path, config: Config) -> None:
    """Let nbgrader autograde one student, with the verdicts on disk. Raises NbgraderError."""
    config = copy.deepcopy(config)
    config.CourseDirectory.student_id = glob.escape(entry.student)
    config.Restore.missing = entry.missing
    with _one_writer(root), tempfile.TemporaryDirectory() as folder:
        if entry.notebook is None or entry.notebook.stem != slug:
            _copy_under_its_name(entry, slug, Path(folder))
            config.CourseDirectory.submitted_directory = str(Path(folder).resolve())
        quietly(Autograde, config)


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


@contextlib.contextmanager
def _one_writer(root: Path) -> Iterator[None]:
    """Wait for other gradings of this course to finish their student; free again however this process ends."""
    folder = root / verdicts.FOLDER
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _graded(
    entry: Submission,
    slug: str,
    course: CourseDirectory,
    recorded: dict[str, Recorded],
    report: Report | None,
    reason: str,
) -> Graded:
    """A student's marks, read back from the gradebook."""
    reasons = (
        (reason,) if report is None else tuple(v.review for v in report.verdicts if v.review and v.name in recorded)
    )
    with Gradebook(course.db_url, course.course_id) as gradebook:
        saved = gradebook.find_submission_notebook(slug, slug, entry.student)
        return Graded(
            entry.student,
            sum(grade.score for grade in saved.grades if not recorded[grade.name].written),
            _most(recorded),
            "review" if reasons else "graded",
            reasons,
            tuple(g.name for g in saved.grades if recorded[g.name].written and g.needs_manual_grade),
            saved.late_submission_penalty or 0.0,
        )


def _most(recorded: dict[str, Recorded]) -> float:
    return sum(cell.nbgrader["points"] for cell in recorded.values() if cell.grade and not cell.written)
