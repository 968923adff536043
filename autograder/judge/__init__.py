"""Learner's code -> separate process -> answer -> verdict -> marks. Nothing here knows a chapter."""

from autograder.judge.judging import Judge, TierError, awaits_timing, judge_notebook, time_notebook
from autograder.judge.notebook import Cell, NotebookError, cells_of, read_cells, read_notebook
from autograder.judge.report import report_html, report_png, report_text
from autograder.judge.verdict import Report, RungResult, Verdict

__all__ = [
    "Cell",
    "Judge",
    "NotebookError",
    "Report",
    "RungResult",
    "TierError",
    "Verdict",
    "awaits_timing",
    "cells_of",
    "judge_notebook",
    "read_cells",
    "read_notebook",
    "report_html",
    "report_png",
    "report_text",
    "time_notebook",
]
