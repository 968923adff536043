"""The `autograder` command. Thin: every subcommand says what it does, calls the room that does it, and exits."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import sys
from collections import Counter
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from autograder import __version__
from autograder.lab import LabError

app = typer.Typer(
    help="Making generation faster: judge, grade and keep the course.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(highlight=False), Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else.")]
CourseOption = Annotated[Path | None, typer.Option(help="nbgrader's course folder; the current one by default.")]
TierOption = Annotated[str, typer.Option(help="How the learner's code is kept apart: process, sandbox or node.")]


SMALL_CLASS = 40  # students, up to which everybody has a row


class Usage(LabError):
    """The words of the call are off; one sentence."""


@contextmanager
def _progress(wanted: bool = True, *, lines: bool = False):
    """A bar on standard error; yields a function (text, fraction).

    Where that is no terminal nothing is shown, or a line per stage when `lines` are wanted.
    """
    if lines and not err.is_terminal:
        yield _lines()
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not wanted or not err.is_terminal) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda text, fraction: bar.update(task, description=text, completed=fraction)


def _lines():
    """Progress for a log file: a line for each new stage, none for its numbers."""
    last = ""

    def tell(text: str, fraction: float | None) -> None:
        nonlocal last
        stage = re.sub(r"[\d.,]+", "", text)
        if stage != last:
            err.print(text, markup=False)
            last = stage

    return tell


def _print_json(data: dict) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, indent=1))


def _root() -> Path:
    """The repository. Raises Usage where there is none."""
    from autograder.course.reference import repository

    root = repository()
    if root is None:
        raise Usage("this needs the course's repository; the package alone is installed here")
    return root


def _slug(given: str) -> str:
    """A chapter's slug from itself, its number, or a path that ends in it. Raises Usage."""
    from autograder import chapters

    name = Path(given.rstrip("/")).name
    for slug in chapters.SLUGS:
        if name in (slug, slug.split("_")[0]):
            return slug
    raise Usage(f"there is no chapter {given!r}; there are {', '.join(chapters.SLUGS)}")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Nothing to do before a subcommand."""


@app.command()
def setup() -> None:
    """Fetch and convert the default model, warm the compile cache. Quick to repeat."""
    from autograder import lab

    with _progress(lines=True) as tell:
        left_out = lab.setup.run(tell)
    for sentence in left_out or ["The default model and the compile cache are ready."]:
        out.print(sentence, markup=False)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Look at this machine, one line per item, each with its fix."""
    from autograder import lab
    from autograder.judge import sandbox

    items = lab.doctor.run(no_sandbox=sandbox.why_not())
    usable = all(item.ok or not item.needed for item in items)
    if as_json:
        _print_json({"usable": usable, "items": [vars(item) for item in items]})
        raise typer.Exit(0 if usable else 1)
    table = Table(box=None, show_header=False, padding=(0, 1))
    for item in items:
        sign = "[green]ok[/]" if item.ok else "[red]no[/]" if item.needed else "[yellow]--[/]"
        table.add_row(sign, item.name, item.detail if item.ok else f"{item.detail}\n[bold]fix:[/] {item.fix}")
    out.print(table)
    raise typer.Exit(0 if usable else 1)


@app.command()
def lab() -> None:
    """Open JupyterLab at work/start_here.ipynb, setting up what is missing."""
    from autograder.course import workspace
    from autograder.course.reference import repository

    workspace.launch(repository())


@app.command()
def status() -> None:
    """Show how far you are."""
    from autograder.course import progress

    table = Table(box=None, padding=(0, 1))
    for heading in ("chapter", "", "by check", "written"):
        table.add_column(heading)
    for row in progress.by_chapter():
        filled = round(20 * row.points / row.max_points) if row.max_points else 0
        bar = "█" * filled + "░" * (20 - filled)
        written = f"{row.written:g} of {row.max_written:g}"
        table.add_row(row.slug, bar, f"{row.points:g} of {row.max_points:g}", written)
    out.print(table)
    out.print(progress.what_next(), markup=False)


@app.command()
def hint(name: str, again: Annotated[bool, typer.Option("--again", help="The narrower one.")] = False) -> None:
    """Ask you a question about an exercise that leads on."""
    from autograder import chapters
    from autograder.course.desk import unknown

    exercise = chapters.find(name)
    hints = getattr(exercise, "hints", ())
    if not hints:
        raise Usage(unknown(name) if exercise is None else f"{name} has no hints: it is a written answer")
    out.print(hints[min(int(again), len(hints) - 1)], markup=False)
    if not again and len(hints) > 1:
        out.print(f"(autograder hint {name} --again narrows it down)", markup=False)


@app.command()
def reset(notebook: Path) -> None:
    """Put a fresh copy of a notebook into work/; yours is kept beside it."""
    from autograder.course import workspace

    out.print(workspace.reset(notebook), markup=False)


@app.command()
def check(
    notebook: Path,
    exercise: Annotated[str | None, typer.Option(help="Only this exercise.")] = None,
    tier: TierOption = "process",
    as_json: Json = False,
) -> None:
    """Judge a notebook file as it stands. Exits 0 with full marks, 1 without, 2 when it cannot be judged."""
    from autograder import chapters
    from autograder.course.desk import unknown
    from autograder.course.reference import references
    from autograder.judge import cells_of, judge_notebook, read_notebook, report_text

    read = read_notebook(notebook)
    slug = chapters.chapter_of_notebook(read, notebook.resolve().parent.name)
    if slug is None:
        raise Usage(f"{notebook} belongs to no chapter: it has none of the course's exercises")
    chapter = chapters.load(slug)
    if exercise is not None and exercise not in [e.name for e in chapter.exercises]:
        where = chapters.chapter_of(exercise)
        raise Usage(f"{exercise} is in chapter {where}, not in {slug}" if where else unknown(exercise))
    with _progress(not as_json) as tell:
        report = judge_notebook(
            cells_of(read), chapter, tier=tier, reference=references(), progress=tell, only=exercise
        )
    if as_json:
        _print_json(report.to_json())
    else:
        for verdict in report.verdicts:
            typer.echo(report_text(verdict) + "\n")
        typer.echo(f"{report.points:g} of {report.max_points:g} points in {slug}, judged at the {report.tier} tier")
        if report.tier == "process":
            typer.echo("(this tier is for your own use: it cannot stop code that sets out to forge marks)")
    raise typer.Exit(0 if report.points >= report.max_points else 1)


@app.command()
def release(slugs: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Generate release/ from source/, for all chapters or the ones named."""
    from autograder import chapters
    from autograder.course import release as releasing

    chosen = [_slug(given) for given in slugs] if slugs else list(chapters.SLUGS)
    root = _root()
    for path in releasing.generate(chosen, root):
        out.print(str(path.relative_to(root)), markup=False)


@app.command()
def verify(
    quick: Annotated[bool, typer.Option("--quick", help="Only what needs no model.")] = False, as_json: Json = False
) -> None:
    """Check the invariants of the course, each failure with the command that fixes it."""
    from autograder.course import invariants

    with _progress(not as_json) as tell:
        findings = invariants.verify(_root(), quick, progress=tell)
    good = all(finding.ok for finding in findings)
    if as_json:
        _print_json({"ok": good, "findings": [vars(finding) for finding in findings]})
        raise typer.Exit(0 if good else 1)
    for finding in findings:
        out.print(f"[green]ok[/]  {finding.name}" if finding.ok else f"[red]no[/]  {finding.name}")
        if finding.detail:
            out.print(f"    {finding.detail}", markup=False)
        if not finding.ok and finding.fix:
            out.print(f"    fix: {finding.fix}", markup=False)
    raise typer.Exit(0 if good else 1)


@app.command()
def grade(
    chapter: str,
    student: Annotated[str | None, typer.Option(help="Only this student.")] = None,
    tier: Annotated[str | None, typer.Option(help="Instead of the tier in nbgrader_config.py.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Judge unchanged submissions anew, too.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that judge; as many as usable cores by default.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask cluster that judges instead, as tls://HOST:8786.")
    ] = None,
    everybody: Annotated[bool, typer.Option("--all", help="A row for every student of a large class, too.")] = False,
    course: CourseOption = None,
    as_json: Json = False,
) -> None:
    """Grade all collected submissions into the gradebook. Exits 0, or 1 when some need a person, 2 on an error."""
    from autograder import lab
    from autograder.classroom import grade as grading

    slug = _slug(chapter)
    if scheduler and workers:
        raise Usage("--workers is for this machine alone: a cluster at --scheduler has its own number of workers")
    try:
        with _class_progress(not as_json) as (tell, finished):
            summary = grading.grade(
                slug,
                root=course or Path.cwd(),
                student=student,
                tier=tier,
                again=again,
                workers=workers or lab.hardware.usable_cores(),
                scheduler=scheduler,
                progress=tell,
                finished=finished,
            )
    except KeyboardInterrupt:
        without = ", without --again," if again else ""
        raise Usage(f"interrupted; what was judged is kept, and the same command{without} goes on from there") from None
    if as_json:
        _print_json(summary.to_json())
    else:
        _print_summary(summary, everybody=everybody)
    raise typer.Exit(summary.status)


@app.command()
def report(
    chapter: str,
    course: CourseOption = None,
    out_file: Annotated[Path | None, typer.Option("--out", help="Where the page goes.")] = None,
) -> None:
    """Write one HTML page about a graded class: marks, speeds, commonest mistakes, who needs a person."""
    from autograder.classroom import class_report

    out.print(str(class_report.write(_slug(chapter), course or Path.cwd(), out_file)), markup=False, soft_wrap=True)


package = typer.Typer(help="Put an assignment into the form of another platform.", no_args_is_help=True)
app.add_typer(package, name="package")


@package.command()
def gradescope(
    chapter: str,
    out_file: Annotated[Path | None, typer.Option("--out", help="Where the zip goes.")] = None,
) -> None:
    """Write the zip with which Gradescope judges a chapter's assignment, set-up script included."""
    from autograder.classroom import gradescope as packaging

    path = packaging.package(_slug(chapter), _root(), out_file, torch_index=os.environ.get("TORCH_INDEX_URL", ""))
    out.print(str(path), markup=False, soft_wrap=True)


@contextmanager
def _class_progress(wanted: bool):
    """Two functions, (text, fraction) and (graded student): a bar on a terminal, a line per student in a log."""
    if wanted and not err.is_terminal:
        once = cache(lambda: err.print("grading: a line for each student, as soon as the marks are saved"))
        yield (
            (lambda text, fraction: once()),
            lambda graded: err.print(_in_a_line(graded), markup=False, soft_wrap=True),
        )
        return
    with _progress(wanted) as tell:
        yield tell, lambda graded: None


def _in_a_line(graded) -> str:
    return "; ".join([f"{_plain(graded.student)}: {_marks(graded)}", *_remarks(graded.reasons, graded.zeros)])


def _print_summary(summary, *, everybody: bool) -> None:
    """Totals first, then those who need a person, then everybody where that is not too long."""
    students = summary.students
    out.print(_totals(summary), markup=False, soft_wrap=True)
    suspicious = [row for row in students if row.suspicious]
    if suspicious:
        out.print()
        out.print(_table(suspicious, f"To look at: {len(suspicious)}", lambda row: row.lost | row.zeros))
    rest = [row for row in students if not row.suspicious]
    if rest and (everybody or len(students) <= SMALL_CLASS):
        out.print()
        out.print(_table(rest, "The others" if suspicious else "Everybody", lambda row: row.zeros))
    elif rest:
        out.print(f"\nNothing is odd about the other {len(rest)}; --all lists them.", markup=False)
    if unmarked := sum(len(row.unmarked) for row in students):
        out.print(f"\nWritten answers still to be marked, in the formgrader: {unmarked}", markup=False)


def _totals(summary) -> str:
    """What became of the class, in a few lines."""
    from statistics import median

    students = summary.students
    count = Counter(row.outcome for row in students)
    graded = [row.points for row in students if row.outcome != "failed"]
    lines = [
        f"{summary.assignment}, at the {summary.tier} tier: {len(graded)} graded "
        f"({summary.judged} judged, {summary.unchanged} unchanged), "
        f"{summary.needs_review} {'needs' if summary.needs_review == 1 else 'need'} a person"
    ]
    if count["failed"]:
        lines.append(f"{count['failed']} could not be graded and have no new marks: mend the cause and run this again")
    if graded:
        most = students[0].max_points
        lines.append(
            f"points by check: median {median(graded):g} of {most:g}, "
            f"{sum(points >= most for points in graded)} with all, {sum(points == 0 for points in graded)} with none"
        )
    for name, number in Counter(name for row in students for name in row.unmeasured).items():
        lines.append(
            f"{name}: the speed of {number} could not be measured here and now, so those points follow the counted "
            "work; --again on a quiet machine measures"
        )
    return "\n".join(lines)


def _table(rows, title: str, zeros) -> Table:
    """A row per student; zeros(row) are the exercises without points that are worth a word, and why."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for heading in ("student", "points", "outcome", "why"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        words = (row.outcome, *{row.outcomes[name] for name in row.lost}) if row.lost else (row.outcome,)
        why = "\n".join(_remarks(row.reasons, zeros(row)))
        table.add_row(Text(_plain(row.student)), Text(_marks(row)), Text(", ".join(words)), Text(why))
    return table


def _marks(graded) -> str:
    if graded.outcome == "failed":
        return "not graded"
    late = f" (late: -{graded.late_penalty:g})" if graded.late_penalty else ""
    if graded.late_seconds and not late:
        hours = math.ceil(graded.late_seconds / 3600)
        late = f" (late by {hours} h)" if hours < 48 else f" (late by {hours // 24} days)"
    return f"{graded.points:g} of {graded.max_points:g}{late}"


def _remarks(reasons, zeros: dict[str, str]) -> list[str]:
    """Why a person must look, and why exercises earned nothing."""
    return [_plain(text) for text in (*reasons, *(f"{name} {why}" for name, why in zeros.items()))]


def _plain(text: str) -> str:
    """Text of a student's, made fit for one line of a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return "the disk is full: free some space and run this again"
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            return f"{error.filename or 'a file'} cannot be written: {error.strerror}"
        return f"{error.filename or 'a file'}: {error.strerror or error}"
    return str(error)


def main() -> None:
    """Run the command. What a person can mend is one sentence and a status, never a traceback."""
    try:
        app()
    except (LabError, OSError) as error:
        _fail(error)


def _fail(error: Exception) -> None:
    err.print(f"autograder: {_sentence(error)}", markup=False, soft_wrap=True)
    sys.exit(1 if "setup" in sys.argv[1:2] else 2)


if __name__ == "__main__":
    main()
