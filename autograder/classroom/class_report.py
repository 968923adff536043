"""One HTML page about a graded class: marks, measured speeds, what most got wrong, and who needs a person.

Marks and flags come from the gradebook, the rest from the kept verdicts. The page needs nothing outside itself and has
no scripts; whatever a student wrote is text in it.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from statistics import median

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from autograder import chapters
from autograder.classroom import submission as submissions
from autograder.classroom import verdicts
from autograder.classroom.grade import (
    GradeError,
    brief,
    configuration,
    find_submissions,
    restored_notebook,
    why_nothing,
)
from autograder.classroom.pipeline import judged_cells
from autograder.classroom.submission import Recorded
from autograder.judge import NotebookError, Report
from autograder.judge.report import clean
from autograder.judge.verdict import OUTCOMES

FLAGGED = "Needs a person: "  # how the comment of a flagged answer begins
MOST_RUNGS = 15
MOST_BARS = 26
OUTCOME_WORDS = {
    "full": "full marks",
    "partial": "some marks",
    "none": "attempted, no marks",
    "untouched": "not answered",
    "died": "code ended its process",
    "timeout": "code did not finish",
    "review": "needs a person",
}


@dataclass(frozen=True)
class Row:
    """One student. points: exercise or question -> marks. flags: (exercise, why a person must look)."""

    student: str
    state: str  # "graded", "changed since" or "not graded"
    points: dict[str, float] = field(default_factory=dict)
    flags: tuple[tuple[str, str], ...] = ()
    unmarked: tuple[str, ...] = ()
    late_penalty: float = 0.0
    report: Report | None = None

    @property
    def reasons(self) -> dict[str, list[str]]:
        """Why a person must look -> at which exercises."""
        found: dict[str, list[str]] = {}
        for name, reason in self.flags:
            found.setdefault(reason.removeprefix(f"{name}: "), []).append(name)
        return found


@dataclass(frozen=True)
class Histogram:
    """How many got how much: bars are (label, count)."""

    title: str
    bars: list[tuple[str, int]]
    middle: float
    most: float

    @property
    def tallest(self) -> int:
        return max(count for _, count in self.bars)

    @property
    def words(self) -> str:
        """The figure for those who cannot see it."""
        counts = ", ".join(f"{label}: {count}" for label, count in self.bars if count)
        return f"{self.title}: median {self.middle:g} of {self.most:g}. Points and how many have them: {counts}."


@dataclass(frozen=True)
class Speeds:
    """Measured speedups of one exercise over the slow way, or over the course's solution where only slowness costs.

    Positions are percent of the figure's width.
    """

    name: str
    against: str
    ratios: list[float]
    unmeasured: int
    half_bar: float | None
    full_bar: float | None
    reference: float | None
    dots: list[tuple[float, int]]  # position, height above the axis in dots
    ticks: list[tuple[float, str]]
    lines: list[tuple[float, str, str]]  # position, label, kind

    @property
    def words(self) -> str:
        """The figure for those who cannot see it."""
        text = (
            f"{len(self.ratios)} measured speedups of {self.name} over {self.against}, from {min(self.ratios):.2f} to "
            f"{max(self.ratios):.2f} times, median {median(self.ratios):.2f}."
        )
        if self.half_bar == self.full_bar and self.full_bar:
            return f"{text} Full marks start at {self.full_bar:.2f} times."
        if self.half_bar and self.full_bar:
            text += f" Half marks start at {self.half_bar:.2f}, full marks at {self.full_bar:.2f} times."
        return text + (f" The course's solution reaches {self.reference:.2f} times." if self.reference else "")


def write(slug: str, root: Path, out: Path | None = None) -> Path:
    """Write the page about a graded assignment; its path. Raises GradeError when there is nothing to report."""
    root = Path(root).resolve()
    path = Path(out) if out else root / verdicts.FOLDER / f"{slug}.html"
    text = page(slug, class_rows(slug, root))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def class_rows(slug: str, root: Path) -> list[Row]:
    """Everybody who handed in, by name, as they stand in the gradebook. Raises GradeError."""
    config = configuration(slug, root)
    course = CourseDirectory(config=config)
    handed_in = find_submissions(slug, course)
    known = newest_reports(root / verdicts.FOLDER / slug)
    unknown = GradeError(f"Nothing of {slug} is graded yet: `autograder grade {slug}` comes first.")
    database = make_url(course.db_url)
    if database.drivername == "sqlite" and not Path(database.database).exists():
        raise unknown
    try:
        with Gradebook(course.db_url, course.course_id) as gradebook:
            recorded = submissions.recorded_cells(gradebook, slug, slug)
            rows = [_row(entry, slug, gradebook, recorded, known) for entry in handed_in]
    except MissingEntry:
        raise unknown from None
    except SQLAlchemyError as error:
        raise GradeError(f"The gradebook cannot be used: {str(error).splitlines()[0]}") from None
    if all(row.state == "not graded" for row in rows):
        raise unknown
    return rows


def newest_reports(folder: Path) -> dict[str, Report]:
    """The kept verdicts by the digest of what was handed in: with speeds rather than without, the newest."""
    found: dict[str, tuple[tuple, Report]] = {}
    for path in folder.glob("*.json"):
        kept = verdicts.read_kept(path)
        if kept is None:
            continue
        key, report = kept
        rank = (path.stat().st_mtime if not verdicts.awaits(report) else 0.0, path.stat().st_mtime)
        if key["submission"] not in found or found[key["submission"]][0] < rank:
            found[key["submission"]] = rank, report
    return {digest: report for digest, (_, report) in found.items()}


def page(slug: str, rows: Sequence[Row]) -> str:
    """The whole page as HTML."""
    chapter = chapters.load(slug)
    graded = [row for row in rows if row.state != "not graded"]
    judged = [row.report for row in graded if row.report]
    names = list(dict.fromkeys(name for row in graded for name in row.points))
    exercises = [e for e in chapter.exercises if e.name in names]
    written = [w.name for w in chapter.written if w.name in names]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["plain"] = _plain
    environment.filters["breakable"] = lambda name: Markup("_<wbr>").join(name.split("_"))
    template = environment.from_string(resources.files(__package__).joinpath("class_report.html").read_text("utf-8"))
    return template.render(
        chapter=chapter,
        made=datetime.datetime.now().strftime("%d %B %Y, %H:%M"),
        tiers=sorted({report.tier for report in judged}),
        rows=rows,
        graded=graded,
        names=names,
        attention=[row for row in rows if row.flags or row.state != "graded"],
        unmarked=sum(len(row.unmarked) for row in graded),
        late=sum(row.late_penalty > 0 for row in graded),
        total=total_histogram(graded, exercises),
        histograms=[
            *(
                histogram(e.name, [row.points[e.name] for row in graded if e.name in row.points], e.points)
                for e in exercises
            ),
            *(h for name in written if (h := _written_histogram(name, graded))),
        ],
        outcomes=outcome_counts(judged, [e.name for e in exercises]),
        outcome_words=OUTCOME_WORDS,
        rungs=failed_rungs(judged)[:MOST_RUNGS],
        rung_of=len(judged),
        speeds=[found for e in exercises if e.measured and (found := speeds(e.name, judged))],
        remarks=_remarks,
    )


def total_histogram(graded: Sequence[Row], exercises: Sequence) -> Histogram:
    """Automatic marks of everybody, all exercises together."""
    totals = [sum(row.points.get(e.name, 0.0) for e in exercises) for row in graded]
    return histogram("All exercises", totals, sum(e.points for e in exercises))


def histogram(title: str, points: Sequence[float], most: float) -> Histogram:
    """Marks in bars of one point, or half a point where somebody has halves, from 0 to the most there are."""
    step = 0.5 if any(p % 1 for p in points) and most <= MOST_BARS / 2 else 1.0
    while most / step > MOST_BARS:
        step *= 2
    bins = Counter(min(math.floor(p / step + 0.5), round(most / step)) for p in points)
    bars = [(f"{i * step:g}", bins[i]) for i in range(round(most / step) + 1)]
    return Histogram(title, bars, median(points) if points else 0.0, most)


def outcome_counts(judged: Iterable[Report], names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Exercise -> the judge's word -> for how many students."""
    counts = {name: dict.fromkeys(OUTCOMES, 0) for name in names}
    for report in judged:
        for verdict in report.verdicts:
            if verdict.name in counts:
                counts[verdict.name][verdict.outcome] += 1
    return counts


@dataclass(frozen=True)
class FailedRung:
    """A rung that students did not reach: how many, of how many who answered, and what most of them were told."""

    exercise: str
    rung: str
    count: int
    answered: int
    message: str


def failed_rungs(judged: Iterable[Report]) -> list[FailedRung]:
    """Rungs by how many failed them. Answers that were never given or never came back have failed none."""
    told: dict[tuple[str, str], list[str]] = defaultdict(list)
    answered: Counter[str] = Counter()
    for report in judged:
        for verdict in report.verdicts:
            if verdict.outcome in ("untouched", "died", "timeout"):
                continue
            answered[verdict.name] += 1
            for rung in verdict.rungs:
                if not rung.ok:
                    told[verdict.name, rung.name].append(rung.message.splitlines()[0] if rung.message else "")
    found = [
        FailedRung(exercise, rung, len(messages), answered[exercise], brief(_commonest(messages)))
        for (exercise, rung), messages in told.items()
    ]
    return sorted(found, key=lambda failed: -failed.count)


def _commonest(messages: Sequence[str]) -> str:
    """The message most were told, numbers and values aside."""
    real = [message for message in messages if message not in ("", "as above", "not reached")]
    shape = Counter(re.sub(r"[\d.]+|\[.*?\]", "#", message) for message in real)
    if not shape:
        return ""
    most, _ = shape.most_common(1)[0]
    return next(message for message in real if re.sub(r"[\d.]+|\[.*?\]", "#", message) == most)


def speeds(name: str, judged: Iterable[Report]) -> Speeds | None:
    """The measured speedups of one exercise, laid out on a logarithmic axis; None where nothing was measured."""
    facts = [v.speed for report in judged for v in report.verdicts if v.name == name and v.speed]
    measured = [speed for speed in facts if speed.get("measurable")]
    if not measured:
        return None
    ratios = sorted(speed["ratio"] for speed in measured)
    half, full, reference = (
        median(values) if (values := [speed[part] for speed in measured if speed.get(part)]) else None
        for part in ("half_bar", "full_bar", "reference_ratio")
    )
    against = measured[0].get("against", "the slow way")
    marks = [value for value in (1.0, half, full, reference) if value]
    low, high = min(*ratios, *marks) / 1.2, max(*ratios, *marks) * 1.2

    def position(value: float) -> float:
        return round(100 * math.log(value / low) / math.log(high / low), 2)

    heights: Counter[int] = Counter()
    dots = []
    for ratio in ratios:
        column = round(position(ratio) / 1.6)
        dots.append((column * 1.6, heights[column]))
        heights[column] += 1
    ticks = [t for t in (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128) if low <= t <= high]
    lines = [(1.0, against, "slow"), (half if half != full else None, "half marks", "bar"), (full, "full marks", "bar")]
    lines.append((reference, "the course's solution", "reference"))
    return Speeds(
        name,
        against,
        ratios,
        len(facts) - len(measured),
        half,
        full,
        reference,
        dots,
        [(position(tick), f"{tick:g}×") for tick in ticks],
        [(position(value), label, kind) for value, label, kind in lines if value],
    )


def _row(entry, slug: str, gradebook: Gradebook, recorded: dict[str, Recorded], known: dict[str, Report]) -> Row:
    try:
        saved = gradebook.find_submission_notebook(slug, slug, entry.student)
    except MissingEntry:
        return Row(entry.student, "not graded")
    flagged = [grade for grade in saved.grades if grade.needs_manual_grade]
    reasons = {grade.name: _reason(gradebook, grade.name, slug, entry.student) for grade in flagged}
    report, state = None, "graded"
    try:
        cells = judged_cells(restored_notebook(entry, recorded))
        report = known.get(verdicts.submission_digest(cells))
        state = "graded" if report else "changed since"
    except NotebookError:
        pass  # why it cannot be read is among its flags
    return Row(
        entry.student,
        state,
        {grade.name: grade.score for grade in saved.grades if not (recorded[grade.name].written and grade in flagged)},
        tuple((name, reason) for name, reason in reasons.items() if reason),
        tuple(grade.name for grade in flagged if recorded[grade.name].written and not reasons[grade.name]),
        saved.late_submission_penalty or 0.0,
        report,
    )


def _reason(gradebook: Gradebook, name: str, slug: str, student: str) -> str:
    """Why an answer was flagged, from the comment that stands beside it; "" for one that only waits to be marked."""
    for answer in (name, f"{name}_solution"):
        try:
            comment = gradebook.find_comment(answer, slug, slug, student).auto_comment or ""
        except MissingEntry:
            continue
        if comment.startswith(FLAGGED):
            return comment.removeprefix(FLAGGED).replace(submissions.JOINER, "")
    return ""


def _written_histogram(name: str, graded: Sequence[Row]) -> Histogram | None:
    points = [row.points[name] for row in graded if name in row.points]
    return histogram(name, points, 5.0) if points else None


def _remarks(row: Row) -> list[str]:
    """Why exercises earned nothing."""
    judged = row.report.verdicts if row.report else ()
    return [f"{v.name} {why_nothing(v)}" for v in judged if v.name in row.points and not v.points]


def _plain(text: str) -> str:
    """Text without control characters, and with nothing that reorders what stands around it."""
    return re.sub(r"[\u200e\u200f\u202a-\u202e\u2066-\u2069]", "", clean(text))
