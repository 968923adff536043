"""check, hint, rubric and progress in a real kernel."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from autograder.course.desk import out_of_order
from autograder.course.live import Recorder
from autograder.judge import Cell

pytestmark = pytest.mark.notebooks
ANSWERS = Path(__file__).parent / "answers/01/latency_metrics"
IMPORT = "from autograder import check, hint, progress, rubric"
RIGHT = (ANSWERS / "right_with_a_loop.py").read_text()
WRONG = (ANSWERS / "end_to_end_over_all.py").read_text()
CHECK = 'check("latency_metrics")'


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Execute cells in a kernel whose folder is a fresh one; the executed cells."""
    monkeypatch.setenv("AUTOGRADER_PROGRESS", str(tmp_path / "progress.json"))

    def execute(*sources: str):
        notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = tmp_path / "mine.ipynb"
        monkeypatch.setenv("JPY_SESSION_NAME", str(path))
        nbformat.write(notebook, path)
        client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
        client.execute()
        return notebook.cells

    return execute


def shown(cell) -> str:
    """Everything a reader sees below a cell."""
    parts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]
    assert not any(o.output_type == "error" or o.get("name") == "stderr" for o in cell.outputs), cell.outputs
    return "\n".join(parts)


def test_a_learner_meets_the_stub_then_a_message_then_full_marks(run, tmp_path):
    _, early, _, wrong, _, right, again, bars = run(
        IMPORT, CHECK, WRONG, CHECK, RIGHT, CHECK, "import time\nbegan = time.time()\ncheck('latency_metrics')\n"
        "print(f'took {time.time() - began:.3f}')", "progress()",
    )  # fmt: skip
    assert "run your answer cell first" in shown(early)
    assert "the whole time over all" in " ".join(shown(wrong).split())
    assert "5 of 5" in shown(right) and "source/01_prefill_and_decode" in shown(right)
    assert right.outputs[-1].data["text/plain"] == "5.0"
    assert any("text/html" in o.get("data", {}) for o in right.outputs)
    assert float(shown(again).split("took ")[1]) < 10
    assert "5 of 20" in shown(bars)
    assert json.loads((tmp_path / "progress.json").read_text())["latency_metrics"]["points"] == 5
    assert "def latency_metrics" in (tmp_path / "built" / "latency_metrics.py").read_text()


def test_names_of_the_course_may_be_taken_over(run):
    *_, last = run(IMPORT, RIGHT, "check = print\nIn = None\nOut = None", "import autograder", "autograder." + CHECK)
    assert "5 of 5" in shown(last)


def test_code_that_ran_before_the_import_counts(run):
    *_, last = run(RIGHT, IMPORT, CHECK)
    assert "5 of 5" in shown(last)


def test_cells_run_in_another_order_than_they_stand_are_told():
    ran = [
        Cell("def mean(x): pass", "helper", 1, label="cell [1]"),
        Cell("answer = mean", "answer", 2, label="cell [2]"),
    ]
    warning = out_of_order(ran, ("answer",), ["answer", "helper"])
    assert warning.startswith("cell [1] stands below cell [2] but was run before it. Run all cells from the top")
    assert out_of_order(ran, ("answer",), ["helper", "answer"]) is None
    assert out_of_order(ran, ("answer",), []) is None  # not saved yet, so nobody can say


def test_only_the_latest_execution_of_a_cell_counts():
    shell = SimpleNamespace(
        history_manager=SimpleNamespace(input_hist_raw=["", "before"]),
        events=SimpleNamespace(register=lambda *_: None),
        execution_count=2,
    )
    recorder = Recorder(shell)
    for source, cell_id in (("first", "a"), ("other", "b"), ("second", "a")):
        recorder._record(SimpleNamespace(raw_cell=source, cell_id=cell_id))
        shell.execution_count += 1
    assert [cell["source"] for cell in recorder.cells()] == ["before", "other", "second"]


def test_hints_narrow_and_unknown_names_are_met_kindly(run):
    _, first, second, unknown, wrong_kind, misspelt = run(
        IMPORT, 'hint("latency_metrics")', 'hint("latency_metrics")', 'hint("x")', 'check("explain_the_split")',
        'check("latncy_metrics")',
    )  # fmt: skip
    assert "timeline" in shown(first) and shown(second) != shown(first)
    assert "there is no exercise 'x'" in shown(unknown)
    assert "written answer" in shown(wrong_kind)
    assert "did you mean 'latency_metrics'" in shown(misspelt)


def test_a_rubric_waits_until_the_answer_is_written(run):
    _, nobody, unwritten, written = run(
        IMPORT,
        'rubric("explain_the_split")',
        "import builtins\nbuiltins.input = lambda question: 'n'\nrubric('explain_the_split')",
        "import builtins\nbuiltins.input = lambda question: 'y'\nrubric('explain_the_split')",
    )
    assert "no place to type" in shown(nobody)
    assert "Write yours first" in shown(unwritten)
    assert "You gave yourself 5 of 5" in shown(written) and "earns it" in shown(written)


def test_interrupting_a_check_leaves_the_kernel_usable(run):
    endless = "def latency_metrics(sent, token_times):\n    while True:\n        pass"
    interrupt = (
        "import os, signal, threading\n"
        "threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n" + CHECK
    )
    *_, stopped, _, right = run(IMPORT, endless, interrupt, RIGHT, CHECK)
    assert "was stopped" in shown(stopped) or "did not finish" in shown(stopped)
    assert "5 of 5" in shown(right)


def test_the_judge_ends_with_the_kernel(run):
    run(IMPORT, RIGHT, CHECK)
    until = time.monotonic() + 20
    while time.monotonic() < until and (left := _desks()):
        time.sleep(0.2)
    assert not left


def _desks() -> list[int]:
    """The desks of this test run."""
    run, found = os.environ["AUTOGRADER_TESTS"], []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if "autograder.course.desk" in process.cmdline() and process.environ().get("AUTOGRADER_TESTS") == run:
                found.append(process.pid)
    return found
