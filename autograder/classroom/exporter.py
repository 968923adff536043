"""How nbgrader reads what students handed in."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from nbconvert.exporters import NotebookExporter
from nbformat import v4
from nbgrader.converters import Autograde, NbGraderException

from autograder.classroom import submission
from autograder.classroom.pipeline import Judge
from autograder.judge import NotebookError


class SubmissionExporter(NotebookExporter):
    """Reads any file as a notebook; one that is none becomes an empty notebook with the reason why.

    nbgrader makes one of these per run, before it touches a submission: the place to refuse the whole run, and
    to report the students who handed in a folder without a notebook, whom nbgrader would pass over.
    """

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(self.parent, Autograde):
            self._refuse_or_go_on()
            self._name_the_missing(self.parent)

    def from_filename(self, filename, resources=None, **kwargs):
        """The converted notebook, as text, and the resources with `unreadable` among nbgrader's own."""
        reason = ""
        try:
            notebook = submission.read(Path(filename))
        except NotebookError as error:
            notebook, reason = v4.new_notebook(), str(error)
            self.log.error("%s gets no marks, and is flagged: %s", filename, reason)
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
