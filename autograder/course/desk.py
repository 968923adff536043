"""The judge's own process beside a running notebook: a pristine interpreter that answers one kernel.

Requests come as JSON lines on standard input, events leave as JSON lines on standard output; the learner's code runs
below, on a bench. It ends when the kernel does.
"""

from __future__ import annotations

import difflib
import html
import json
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path

from autograder import chapters
from autograder.course import built, progress
from autograder.course.reference import references, source_notebook
from autograder.exercise import MarkScheme
from autograder.judge import Cell, Judge, Verdict, report_html, report_text
from autograder.judge.slicing import slice_for
from autograder.lab import LabError


def unknown(name: str) -> str:
    """One sentence about a name that is no exercise."""
    near = difflib.get_close_matches(name, chapters.names(), 1)
    return f"there is no exercise {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def cells_in(request: dict) -> list[Cell]:
    """The kernel's cells, in the order in which they were last executed."""
    return [Cell(c["source"], c["id"], c["count"], label=f"cell [{c['count']}]") for c in request["cells"]]


def out_of_order(cells: list[Cell], names: tuple[str, ...], standing: list[str]) -> str | None:
    """A warning when the cells an answer depends on were run in another order than they stand in the file."""
    places = {cell_id: place for place, cell_id in enumerate(standing)}
    kept = [cell for cell in slice_for(cells, names).kept_cells if cell.id in places]
    for earlier, later in pairwise(kept):
        if places[earlier.id] > places[later.id]:
            return (
                f"{earlier.file} stands below {later.file} but was run before it. Run all cells from the top "
                "before you hand this in: the grader reads them in the order in which they stand."
            )
    return None


def judged(judge: Judge, request: dict) -> Verdict:
    """The verdict on one exercise, with a note about cells that were run out of order."""
    exercise, cells = chapters.find(request["name"]), cells_in(request)
    verdict = judge.judge(exercise, cells)
    warning = out_of_order(cells, exercise.names, request.get("standing", []))
    if warning:
        verdict.note = f"{verdict.note}\n{warning}" if verdict.note else warning
    if progress.counts_as_learning(Path(request["folder"])):
        progress.record_verdict(verdict)
        built.keep(exercise, verdict, cells)
    return verdict


def solution_footer(verdict: Verdict, folder: str) -> tuple[str, str]:
    """(text, HTML) that leads from full marks to the course's own solution, where it is present."""
    path = source_notebook(chapters.chapter_of(verdict.name))
    if not verdict.full or path is None:
        return "", ""
    relative = os.path.relpath(path, folder)
    link = html.escape(relative, quote=True)
    text = "The course's own solution, with its reasons: "
    return f"\n  {text}{relative}", f'<div style="margin-top:.5em">{text}<a href="{link}">{link}</a></div>'


def answer(judge: Judge, request: dict) -> dict:
    """The final event for one request."""
    item = chapters.find(request["name"])
    if item is None:
        return {"refused": unknown(request["name"])}
    if isinstance(item, MarkScheme):
        return {"refused": f"{item.name} is a written answer: a person marks it, and rubric({item.name!r}) shows how"}
    verdict = judged(judge, request)
    text, footer = solution_footer(verdict, request["folder"])
    return {
        "points": verdict.points,
        "text": report_text(verdict) + text,
        "html": report_html(verdict, footer=footer),
        "verdict": verdict.to_json(),
    }


def serve(requests, say) -> None:
    """Answer requests until there are no more."""
    with Judge(
        reference=references(), progress=lambda text, fraction: say({"doing": text, "fraction": fraction}), live=True
    ) as judge:
        judge.start()
        for line in requests:
            say({"doing": "checking your answer", "fraction": 0.0})
            try:
                say(answer(judge, json.loads(line)))
            except LabError as error:
                say({"refused": str(error)})


def main() -> None:
    """Serve standard input. Whatever else prints goes nowhere, so that events stay readable."""
    events = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    serve(sys.stdin, lambda event: print(json.dumps(event), file=events, flush=True))


if __name__ == "__main__":
    main()
