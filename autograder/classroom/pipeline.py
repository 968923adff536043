"""What nbgrader does to a submission here: restore, judge, save, flag. `configure` puts it in place of its own.

nbgrader grades a cell by what running it put out, in a kernel that the student's code owns. Here nothing of a
student's runs in nbgrader: the judge decides, and each test cell gets its report and its points as output.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from pathlib import Path

from nbformat import NotebookNode, v4
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import is_grade
from traitlets import Bool, List, Unicode

from autograder import chapters
from autograder import judge as judging
from autograder.classroom import submission, verdicts
from autograder.course.release import PREPROCESSORS, find_alembic
from autograder.exercise import MarkScheme

VALIDATE_SECONDS = 300
PATH = re.compile(r"(?<![\w/.])(?:/[^\s/'\"()<>,:;]+)+/(?=[^\s/'\"()<>,:;]+)")
PROMISES = {"process": "which does not stop code that sets out to forge marks"}  # tier -> what to know of it


def configure(c) -> None:
    """Make this the pipeline of an nbgrader configuration."""
    find_alembic()
    c.GenerateAssignment.preprocessors = PREPROCESSORS
    c.Autograde.exporter_class = "autograder.classroom.exporter.SubmissionExporter"
    c.Autograde.sanitize_preprocessors = [
        "autograder.classroom.pipeline.Restore",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.Autograde.autograde_preprocessors = [
        "autograder.classroom.pipeline.Judge",
        "nbgrader.preprocessors.LimitOutput",
        "nbgrader.preprocessors.SaveAutoGrades",
        "autograder.classroom.pipeline.Flag",
        "nbgrader.preprocessors.AssignLatePenalties",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.GenerateFeedback.preprocessors = [
        "nbgrader.preprocessors.GetGrades",
        "autograder.classroom.pipeline.SchemeForStudents",
        "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
    ]
    c.ExportApp.plugin_class = "autograder.classroom.marks_csv.MarksCsv"
    c.Execute.timeout = VALIDATE_SECONDS  # of one cell, for `nbgrader validate`


class Restore(NbGraderPreprocessor):
    """The submission with the cells and the metadata it was released with, and what helps to read and to mark it."""

    missing = Unicode("", help="Why there is nothing to grade, in a run over one student.").tag(config=True)

    def preprocess(self, notebook, resources):
        here = resources["nbgrader"]
        with Gradebook(here["db_url"]) as gradebook:
            recorded = submission.recorded_cells(gradebook, here["notebook"], here["assignment"])
            kernelspec = gradebook.find_notebook(here["notebook"], here["assignment"]).kernelspec
        notebook = submission.restored(notebook, recorded)
        chapter = chapter_of(notebook, here["assignment"])
        notebook.metadata = NotebookNode(
            autograder={"chapter": chapter, "unreadable": self.missing or here["unreadable"]},
            kernelspec=json.loads(kernelspec or "{}"),
        )
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell.outputs:
                cell.outputs.insert(0, v4.new_output("stream", name="stdout", text="as submitted:\n"))
        taken = {cell.id for cell in notebook.cells}
        notebook.cells = [new for cell in notebook.cells for new in _for_the_marker(cell, taken)]
        return notebook, resources


class Judge(NbGraderPreprocessor):
    """Writes into each test cell the judge's report and, as its only result, the points."""

    tier = Unicode("sandbox", help="How submissions are kept apart: process, sandbox or node.").tag(config=True)
    measure = Bool(True, help="Whether speed is measured; without it its points are not earned.").tag(config=True)
    machine = Unicode("", help="Whose measurements count, in a run over one student; this machine's by default.").tag(
        config=True
    )

    def refusal(self) -> str | None:
        """Why nothing can be graded with these settings, in a sentence; None when it can."""
        try:
            judging.Judge(tier=self.tier).close()
        except judging.TierError as error:
            return f"Nothing was graded: {error} (in nbgrader: --Judge.tier=process, or c.Judge.tier in its config)."
        return None

    def preprocess(self, notebook, resources):
        here = resources["nbgrader"]
        ours = notebook.metadata.autograder
        marks: dict[str, judging.Verdict] = {}
        if not ours.unreadable:
            # nbgrader converts with the course's root as the working directory
            report = verdicts.report(
                judged_cells(notebook),
                ours.chapter,
                Path.cwd(),
                tier=self.tier,
                measure=self.measure,
                machine=self.machine,
            )
            marks = {verdict.name: verdict for verdict in report.verdicts}
        ours.tier = self.tier  # from here on this copy is known to be judged
        here["review"] = {}
        for name, cell in _grade_cells(notebook).items():
            reason = ours.unreadable
            if cell.cell_type == "code":
                verdict = marks.get(name) or _zero(name, cell, self.tier, reason)
                write_outputs(cell, verdict)
                reason = verdict.review
            if reason:
                here["review"][name] = reason
        return notebook, resources


class Flag(NbGraderPreprocessor):
    """Marks what a person must look at, with the reason as a comment on the answer. After SaveAutoGrades."""

    def preprocess(self, notebook, resources):
        here = resources["nbgrader"]
        where = (here["notebook"], here["assignment"], here["student"])
        with Gradebook(here["db_url"]) as gradebook:
            for name, reason in here["review"].items():
                gradebook.find_grade(name, *where).needs_manual_grade = True
                for answer in (name, f"{name}_solution"):
                    try:
                        comment = gradebook.find_comment(answer, *where)
                    except MissingEntry:
                        continue
                    comment.auto_comment = submission.harmless(f"Needs a person: {without_folders(reason)}")
            gradebook.db.commit()
        return notebook, resources


class SchemeForStudents(NbGraderPreprocessor):
    """In feedback a mark scheme is its five points, without the sentences and samples that the marker sees."""

    display_data_priority = List([]).tag(config=True)  # which the exporter sets for all, and nbgrader's base hides

    def preprocess(self, notebook, resources):
        for cell in notebook.cells:
            if scheme := _scheme(cell.metadata.get("autograder", {}).get("scheme", "")):
                cell.source = scheme_text(scheme, full=False)
        return notebook, resources


def chapter_of(notebook: NotebookNode, assignment: str) -> str:
    """The chapter an assignment is of: its name, else most of its restored test cells. ValueError if none."""
    if assignment in chapters.SLUGS:
        return assignment
    chapter = chapters.chapter_of_notebook({"cells": notebook.cells})
    if chapter is None:
        raise ValueError(f"{assignment} is no chapter of this course, so there is nothing to judge it by")
    return chapter


def judged_cells(notebook: NotebookNode) -> list[judging.Cell]:
    """The code cells under the numbers they have in the student's own copy, without our mark schemes."""
    return judging.cells_of({"cells": [cell for cell in notebook.cells if "autograder" not in cell.metadata]})


def is_judged(copy: Path) -> bool:
    """Whether a notebook in autograded/ is one that was graded to its end: it names its tier. Never raises."""
    try:
        return bool(judging.read_notebook(copy)["metadata"]["autograder"]["tier"])
    except (judging.NotebookError, KeyError, TypeError):
        return False


def write_outputs(cell: NotebookNode, verdict: judging.Verdict) -> None:
    """Put a verdict into its test cell: the report, its tier, the picture of a measurement, one finite number."""
    most = cell.metadata.nbgrader["points"]
    points = min(max(0.0, verdict.points), most) if math.isfinite(verdict.points) else 0.0
    text = f"{judging.report_text(discreet(verdict))}\n{tier_text(verdict.tier)}\n"
    cell.outputs = [v4.new_output("stream", name="stdout", text=text)]
    if picture := judging.report_png(verdict):
        said = verdict.speed.get("message") or "how fast it was"
        data = {"image/png": base64.b64encode(picture).decode(), "text/plain": said}
        cell.outputs.append(v4.new_output("display_data", data, metadata=submission.alternative(said)))
    cell.outputs.append(v4.new_output("execute_result", {"text/plain": repr(float(points))}))


def tier_text(tier: str) -> str:
    """How the code was kept apart that these marks are for, in a line."""
    return ", ".join(filter(None, (f"judged at the {tier} tier", PROMISES.get(tier))))


def without_folders(text: str) -> str:
    """The text with the last part alone of each path in it: where things lie here is nobody's business."""
    return PATH.sub(".../", text)


def discreet(verdict: judging.Verdict) -> judging.Verdict:
    """A copy of the verdict for others to read, without this machine's paths."""
    rungs = [replace(rung, message=without_folders(rung.message)) for rung in verdict.rungs]
    note, review = (text and without_folders(text) for text in (verdict.note, verdict.review))
    return replace(verdict, rungs=rungs, note=note, review=review)


def scheme_text(scheme: MarkScheme, *, full: bool) -> str:
    """A mark scheme in markdown: its points, and if `full` the sentences and the marked samples."""
    lines = [f"**Mark scheme of `{scheme.name}`: one mark for each point, no halves**", ""]
    for number, point in enumerate(scheme.points, start=1):
        lines.append(f"{number}. {point.point}")
        if full:
            lines += [f"    - earns it: {point.earns}", f"    - does not: {point.does_not}"]
    for sample in scheme.samples if full else ():
        earned = [str(number) for number, got in enumerate(sample.awarded, start=1) if got]
        marks = f"{len(earned)} of {len(scheme.points)}" + (f" (for {', '.join(earned)})" if earned else "")
        lines += ["", f"A sample, {marks}. {sample.why}", "", *(f"> {line}" for line in sample.text.splitlines())]
    return "\n".join(lines)


def _for_the_marker(cell: NotebookNode, taken: set[str]) -> list[NotebookNode]:
    """The cell; where it is a written answer, between a line that says so and its mark scheme."""
    scheme = _scheme(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
    if scheme is None:
        return [cell]
    above = _note("as submitted:", {"submitted": scheme.name}, taken)
    return [above, cell, _note(scheme_text(scheme, full=True), {"scheme": scheme.name}, taken)]


def _note(text: str, about: dict[str, str], taken: set[str]) -> NotebookNode:
    """A locked text cell of ours in a student's notebook."""
    ((what, name),) = about.items()
    cell_id = submission.free_id(f"{what}-{name}"[:64], taken)
    metadata = {"autograder": about, "deletable": False, "editable": False}
    return v4.new_markdown_cell(text, id=cell_id, metadata=metadata)


def _scheme(name: str) -> MarkScheme | None:
    found = chapters.find(name)
    return found if isinstance(found, MarkScheme) else None


def _grade_cells(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """The cells that earn points, by grade id."""
    return {cell.metadata.nbgrader["grade_id"]: cell for cell in notebook.cells if is_grade(cell)}


def _zero(name: str, cell: NotebookNode, tier: str, reason: str) -> judging.Verdict:
    reason = reason or "the course has no exercise of this name"
    return judging.Verdict(name, 0.0, cell.metadata.nbgrader["points"], "review", review=reason, tier=tier)
