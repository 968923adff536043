"""How nbgrader reads what students handed in, and how one run of it over a class begins and ends."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbformat import v4
from nbgrader.apps import NbGrader
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.utils import rmtree

from autograder.classroom import submission, verdicts
from autograder.classroom.pipeline import Judge, is_judged
from autograder.judge import NotebookError

MARKUP = re.compile(r'[<>"\x00-\x1f]')  # the formgrader puts a student's name into its page as it stands


class SubmissionExporter(NotebookExporter):
    """Reads any file as a notebook; one that is none becomes an empty notebook with the reason why.

    nbgrader makes one of these per run, before it touches a submission: the place to refuse the whole run or single
    students, to report those who handed in a folder without a notebook, whom nbgrader would pass over, and to see
    that nobody else writes meanwhile.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self._refused: list[str] = []
        self._unreadable: list[str] = []
        if isinstance(self.parent, Autograde):
            self._refuse_or_go_on()
            self._name_the_missing(self.parent)
            self._refuse_students(self.parent)
            self._run_in_turn(self.parent)

    def from_filename(self, filename, resources=None, **kwargs):
        """The converted notebook, as text, and the resources with `unreadable` among nbgrader's own."""
        reason = ""
        try:
            notebook = submission.read(Path(filename))
        except NotebookError as error:
            notebook, reason = v4.new_notebook(), str(error)
            self._unreadable.append(f"{filename} gets no marks, and is flagged: {reason}")
            self.log.error(self._unreadable[-1])
        resources = resources or {}
        resources.setdefault("nbgrader", {})["unreadable"] = reason
        return self.from_notebook_node(notebook, resources, **kwargs)

    def _refuse_or_go_on(self) -> None:
        if sentence := Judge(parent=self).refusal():
            self.log.error(sentence)
            raise NbGraderException(sentence)

    def _name_the_missing(self, converter: Autograde) -> None:
        """Let nbgrader fail for a student without a notebook, by name, rather than skip the folder in silence."""
        course = converter.coursedir
        for folder in glob.glob(converter._format_source(course.assignment_id, course.student_id)):
            if os.path.isdir(folder) and folder not in converter.assignments:
                self.log.error("There is no notebook in %s", folder)
                converter.assignments[folder] = []

    def _refuse_students(self, converter: Autograde) -> None:
        """Leave out those whom nbgrader cannot grade, before anything of theirs is in the gradebook."""
        for folder in list(converter.assignments):
            if sentence := _why_refused(converter, folder):
                self.log.error(sentence)
                self._refused.append(sentence)
                del converter.assignments[folder]

    def _run_in_turn(self, converter: Autograde) -> None:
        """Let a run wait for other gradings of the course, mend what a killed one left, and tell how it ended."""
        convert = converter.convert_notebooks
        # `autograder grade` has seen to the turns and tells of each student itself
        alone = (
            contextlib.nullcontext()
            if converter.parent is None
            else verdicts.one_writer(Path(converter.coursedir.root))
        )

        def convert_alone() -> None:
            with alone:
                for copy in _half_made_copies(converter):
                    self.log.warning("%s was not graded to its end, and is made anew", copy)
                    rmtree(copy)
                convert()
            told = [*self._refused, *(self._unreadable if isinstance(converter.parent, NbGrader) else ())]
            if told:
                raise NbGraderException("\n".join(told))

        converter.convert_notebooks = convert_alone


def _names(converter: Autograde, folder: str) -> tuple[str, str]:
    """(assignment, student) of a folder with a submission."""
    pattern = converter._format_source("(?P<assignment>.*)", "(?P<student>.*)", escape=True)
    found = re.match(pattern, folder, re.DOTALL)
    return found["assignment"], found["student"]


def _why_refused(converter: Autograde, folder: str) -> str | None:
    """Why nothing of a folder can be graded, in a sentence; None when it can."""
    _, student = _names(converter, folder)
    if MARKUP.search(student):
        return f'{student!r} is no name for a student: rename the folder, without any of < > and ".'
    try:
        converter.coursedir.get_existing_timestamp(folder)
    except Exception:  # nbgrader's own words for it are an AttributeError
        return f"{folder}/timestamp.txt is no time: write one such as 2026-05-02 12:00:00 UTC, or remove the file."
    return None


def _half_made_copies(converter: Autograde) -> Iterator[str]:
    """Folders in autograded/ that a run left behind which was killed: nbgrader would take them for done."""
    for folder in converter.assignments:
        copy = converter._format_dest(*_names(converter, folder))
        notebooks = glob.glob(os.path.join(glob.escape(copy), "*.ipynb"))
        if os.path.isdir(copy) and not (notebooks and all(is_judged(Path(path)) for path in notebooks)):
            yield copy
