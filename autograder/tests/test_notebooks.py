"""Lessons and assignments, executed from top to bottom as a learner would, and what they must show."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from autograder import chapters
from autograder.course.lessons import BUDGET_SECONDS, PATIENCE
from autograder.course.reference import repository

pytestmark = pytest.mark.notebooks
ROOT = repository()
MEASURED_HERE = "01_prefill_and_decode"
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def executed(path: Path, folder: Path, *last: str):
    """The notebook's cells after a run in `folder`, with further cells at its end; and the seconds it took."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells += [new_code_cell(source) for source in last]
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}})
    started = time.monotonic()
    client.execute()
    return notebook.cells, time.monotonic() - started


def outputs(cells) -> list:
    return [output for cell in cells for output in cell.get("outputs", [])]


def images(cells) -> list[bytes]:
    pngs = [o["data"]["image/png"] for o in outputs(cells) if "image/png" in o.get("data", {})]
    return [base64.b64decode(png) for png in pngs]


def printed(cell) -> dict:
    return json.loads("".join(o["text"] for o in cell.outputs if o.get("name") == "stdout"))


@pytest.mark.alone
@pytest.mark.parametrize("path", [p for p in LESSONS if not p.name.startswith("01")], ids=lambda p: p.stem)
def test_a_lesson_runs_quietly_and_describes_every_figure(path, tmp_path):
    cells, seconds = executed(path, tmp_path)
    assert seconds < PATIENCE * BUDGET_SECONDS
    assert not [o for o in outputs(cells) if o.get("name") == "stderr"]
    for output in outputs(cells):
        if "image/png" in output.get("data", {}):
            assert len(output["data"]["text/plain"]) > 40, "a figure without a description"


@pytest.mark.alone
def test_the_sweep_of_chapter_01_shows_the_split(tmp_path):
    ask = (
        "import json; print(json.dumps({'measured': measured, 'floors': floors(lengths), "
        "'bend': bend, 'device': machine.device}))"
    )
    cells, seconds = executed(ROOT / "notebooks/01_prefill_and_decode.ipynb", tmp_path, ask)
    assert seconds < PATIENCE * BUDGET_SECONDS
    assert not [o for o in outputs(cells) if o.get("name") == "stderr"]
    seen = printed(cells[-1])
    assert len(images(cells)) >= 4
    measured = {int(length): times for length, times in seen["measured"].items()}
    floors = {int(length): times for length, times in seen["floors"].items()}
    assert set(measured) == set(floors) and min(measured) == 1 and max(measured) >= 2048
    # the flat start: while the weights are what is read, the floors of both phases are the same
    assert floors[1][0] == pytest.approx(floors[1][1], rel=0.01)
    assert floors[4][0] == pytest.approx(floors[1][0], rel=0.01) and floors[2048][0] > 5 * floors[1][0]
    first, later = (measured[2048][phase] / measured[16][phase] for phase in (0, 1))
    if seen["device"] == "cpu":
        # ratios within one run; a loaded machine slows both of their sides
        assert first > 10, f"the first token only grew {first:.1f} times"
        assert later < 2 and first > 8 * later, f"each further token grew {later:.2f} times"


@pytest.mark.parametrize(("seconds_per_token", "turn", "start"), [(1e-6, 16, 1.0), (1e-2, 1, 5.12)])
def test_the_queue_of_chapter_06_goes_on_when_nobody_is_there_yet_as_on_a_quick_machine(seconds_per_token, turn, start):
    notebook = nbformat.read(ROOT / "notebooks/06_prefix_caching.ipynb", as_version=4)
    namespace = {"prefill_seconds": lambda new, cached=0: new * seconds_per_token}
    exec(next(cell.source for cell in notebook.cells if cell.id == "serve"), namespace)
    served = namespace["serve"]({"long": (0.0, 8000), "short": (1.0, 100)}, 512)
    assert [name for name, *_ in served] == ["long"] * turn + ["short"] + ["long"] * (16 - turn)
    assert served[turn][1:] == pytest.approx((start, start + 100 * seconds_per_token))


@pytest.mark.parametrize(
    "slug", [pytest.param(s, marks=[pytest.mark.alone] * (s == MEASURED_HERE)) for s in chapters.SLUGS]
)
def test_an_assignment_with_solutions_runs_and_checks_itself(slug, tmp_path):
    """What is measured is checked here in one chapter, and in all of them by the command (test_cli)."""
    exercises = [e for e in chapters.load(slug).exercises if not e.measured or slug == MEASURED_HERE]
    path = tmp_path / f"{slug}.ipynb"
    notebook = nbformat.read(ROOT / f"source/{slug}/{slug}.ipynb", as_version=4)
    checked = {exercise.name for exercise in exercises}
    notebook.cells = [c for c in notebook.cells if not _is_check(c) or grade_id(c) in checked]
    nbformat.write(notebook, path)
    cells, _ = executed(path, tmp_path)
    marks = {grade_id(c): c for c in cells if _is_check(c)}
    for exercise in exercises:
        cell = marks[exercise.name]
        assert float(cell.outputs[-1].data["text/plain"]) == exercise.points, cell.outputs
    assert not [o for o in outputs(cells) if o.get("name") == "stderr"]


def grade_id(cell) -> str | None:
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def _is_check(cell) -> bool:
    return cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade", False)


@pytest.mark.parametrize("slug", chapters.SLUGS)
def test_an_untouched_assignment_runs_as_far_as_it_can_and_never_shows_our_traceback(slug, tmp_path):
    notebook = nbformat.read(ROOT / f"release/{slug}/{slug}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=600, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    for output in outputs(notebook.cells):
        assert output.output_type != "error" or output.ename == "NotImplementedError", output
