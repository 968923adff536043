"""A notebook in Visual Studio Code: its kernel gets other ids for cells and learns the file's name in another way.

VS Code itself is not here; the kernel is spoken to as its Jupyter extension speaks to it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbformat import v4

pytestmark = pytest.mark.notebooks
ANSWERS = Path(__file__).parent / "answers/01/latency_metrics"
RIGHT, WRONG = ((ANSWERS / name).read_text() for name in ("right_with_a_loop.py", "end_to_end_over_all.py"))
CHECK = 'check("latency_metrics")'


class Window:
    """A notebook in VS Code: cells are known to the kernel by an address that is not their id in the file."""

    def __init__(self, client, path: Path) -> None:
        self.client = client
        self.path = path
        self.run("name", f"__vsc_ipynb_file__ = {str(path)!r}")

    def run(self, cell: str, source: str) -> str:
        """What is shown below a cell that is run."""
        content = {"code": source, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": True, "stop_on_error": False}
        address = f"vscode-notebook-cell:{self.path}#{cell}"
        message = self.client.session.msg("execute_request", content, metadata={"cellId": address})
        self.client.shell_channel.send(message)
        shown: dict[str, str] = {}
        while True:
            got = self.client.get_iopub_msg(timeout=120)
            if got["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            kind, content = got["msg_type"], got["content"]
            assert kind != "error", content
            if kind in ("display_data", "update_display_data", "execute_result"):
                key = content.get("transient", {}).get("display_id") or uuid.uuid4().hex
                shown[key] = content["data"]["text/plain"]
            if kind == "status" and content["execution_state"] == "idle":
                return " ".join(" ".join(shown.values()).split())


@pytest.fixture
def window(tmp_path, monkeypatch) -> Iterator[Window]:
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setenv("AUTOGRADER_PROGRESS", str(tmp_path / "progress.json"))
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    path = tmp_path / "mine.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_code_cell(RIGHT, id="in-the-file")]), path)
    yield Window(client, path)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_check_judges_the_latest_run_of_each_cell(window):
    window.run("import", "from autograder import check")
    window.run("answer", WRONG)
    assert "the whole time over all" in window.run("check", CHECK)
    window.run("answer", RIGHT)
    assert "5 of 5" in window.run("check", CHECK)


def test_order_cannot_be_told_there_and_nobody_is_warned_by_mistake(window):
    window.run("import", "from autograder import check")
    window.run("helper-below", "def helper(): pass")
    window.run("answer-above", RIGHT)
    said = window.run("check", CHECK)
    assert "5 of 5" in said and "stands below" not in said


def test_the_file_is_found_by_the_name_vs_code_gives(window):
    said = window.run("look", "from autograder.course import live\nlive._notebook_file(), live._standing_order()")
    assert "mine.ipynb" in said and "in-the-file" in said
