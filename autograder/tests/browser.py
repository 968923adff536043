"""JupyterLab in headless Chromium: started as a learner or a teacher starts it, and driven as a person would.

Debian's Chromium is used as it is; nothing is downloaded. With $COURSE_PICTURES a folder, tests leave their pictures
there (`picture`), which is how those in README are made.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from autograder.tests.classes import REPOSITORY
from autograder.tests.processes import still_running

WIDTH, HEIGHT = 1280, 800  # a laptop's screen
START_SECONDS = 90
PATIENCE = 60_000  # milliseconds; machines are busy
expect.set_options(timeout=PATIENCE)
SETTINGS = {  # every cell is in the page, whether in sight or not
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none", "autoStartDefaultKernel": True},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}


def executable() -> str:
    """Where Chromium is. Without one the test is skipped, in CI it fails."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no chromium (Debian: apt install chromium)")
    return found


@contextlib.contextmanager
def browser(scratch: Path) -> Iterator[Browser]:
    """A headless Chromium whose own files lie in `scratch`."""
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    options = ["--disable-dev-shm-usage", "--disable-gpu", *as_root]
    environment = os.environ | {"TMPDIR": str(scratch), "HOME": str(scratch)}
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable(), args=options, env=environment)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory) -> Iterator[Browser]:
    """One for all tests of a module that says `chromium = browser.chromium`."""
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


class Server:
    """A Jupyter server on a course folder, with the address to open first."""

    def __init__(self, root: Path, command: list[str], scratch: Path, **environment: str) -> None:
        self.root = root
        self.port, self.token = _free_port(), secrets.token_hex(8)
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = open(scratch / "server.log", "w+")  # noqa: SIM115 (closed with the server)
        for name, values in SETTINGS.items():
            path = scratch / "settings" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))
        variables = {
            "JUPYTERLAB_SETTINGS_DIR": str(scratch / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(scratch / "workspaces"),
            "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
            "IPYTHONDIR": str(scratch / "ipython"),
        }
        options = [
            "--no-browser",
            "--ip=127.0.0.1",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={self.token}",
            "--LabApp.expose_app_in_browser=True",
        ]
        self.process = subprocess.Popen(
            [*command, *options],
            cwd=root,
            env=os.environ | variables | environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(self) -> None:
        """Until it answers. Raises AssertionError with its last words when it does not."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.url}/api?token={self.token}", timeout=2).close()
                return
            time.sleep(0.2)
        raise AssertionError(f"the server did not start: {self.log()[-3000:]}")

    def log(self) -> str:
        """What it has said so far."""
        self._log.flush()
        return Path(self._log.name).read_text()

    def stop(self) -> None:
        """End it and its kernels."""
        below = []
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(self.process.pid).children(recursive=True)
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)
        self.process.kill()
        self.process.wait()
        still_running(below)
        self._log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


LAUNCH = """import sys
from pathlib import Path
from autograder.course import workspace
workspace.launch(Path(sys.argv[1]), sys.argv[2:])"""


@contextlib.contextmanager
def jupyterlab(root: Path, scratch: Path, **environment: str) -> Iterator[Server]:
    """JupyterLab as `autograder lab` opens it, on the course at `root`."""
    variables = {"PYTHONPATH": str(REPOSITORY), "AUTOGRADER_PROGRESS": str(scratch / "progress.json")}
    server = Server(root, [sys.executable, "-c", LAUNCH, str(root)], scratch, **(variables | environment))
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def new_page(opened: Browser, server: Server, **options) -> Page:
    """A page of a laptop's size that is logged in at the server."""
    context = opened.new_context(viewport={"width": WIDTH, "height": HEIGHT}, **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"{server.url}/?token={server.token}")
    expect(page.locator("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current")).to_have_text("start_here.ipynb")
    return page


class Notebook:
    """A notebook that is open in JupyterLab, cell by cell, by the cells' ids."""

    def __init__(self, page: Page, path: str) -> None:
        self.page, self.path = page, path
        page.wait_for_function("window.jupyterapp !== undefined")
        self.do("await app.restored; await app.commands.execute('docmanager:open', {path: arg})", path)
        self.do(
            "const panel = app.shell.currentWidget; await panel.context.ready; await panel.revealed;"
            "await panel.sessionContext.ready; await panel.sessionContext.session.kernel.info"
        )
        page.locator(f"{self.panel} .jp-Notebook").wait_for()

    panel = ".jp-NotebookPanel:not(.lm-mod-hidden)"

    def do(self, code: str, arg=None):
        """What a piece of JavaScript returns, with JupyterLab as `app` and the open panel's cells as `cells`."""
        return self.page.evaluate(
            "async arg => { const app = window.jupyterapp;"
            "const cells = app.shell.currentWidget?.content?.widgets ?? [];"
            "const place = id => { const found = cells.findIndex(cell => cell.model.id === id);"
            "if (found < 0) throw new Error('no cell ' + id); return found; };" + code + "}",
            arg,
        )

    def write(self, cell_id: str, source: str) -> None:
        """Put text into a cell in place of its own."""
        self.do("cells[place(arg[0])].model.sharedModel.setSource(arg[1])", [cell_id, source])

    def run(self, *cell_ids: str, wait: bool = True) -> None:
        """Run cells one after the other, as Shift+Enter does."""
        for cell_id in cell_ids:
            start = "app.shell.currentWidget.content.activeCellIndex = place(arg);"
            start += "app.shell.currentWidget.content.deselectAll();"
            call = "app.commands.execute('notebook:run-cell');"
            self.do(start + ("await " + call if wait else call + " return null;"), cell_id)

    def cell(self, cell_id: str) -> Locator:
        """The cell in the page, scrolled into view."""
        found = self.page.locator(f"{self.panel} .jp-Notebook .jp-Cell").nth(self.do("return place(arg)", cell_id))
        found.scroll_into_view_if_needed()
        return found

    def output(self, cell_id: str) -> Locator:
        """What is shown below a cell."""
        return self.cell(cell_id).locator(".jp-Cell-outputWrapper")

    def text(self, cell_id: str) -> str:
        """The words shown below a cell, in single spaces."""
        return " ".join(self.output(cell_id).inner_text().split())

    def result(self, cell_id: str) -> str | None:
        """The value of a cell's last expression, as text."""
        outputs = self.do("return cells[place(arg)].model.outputs.toJSON()", cell_id)
        values = [output["data"]["text/plain"] for output in outputs if output["output_type"] == "execute_result"]
        return values[0] if values else None

    def errors(self) -> list[str]:
        """What cells raised, and what they put out on standard error."""
        return self.do(
            "return cells.filter(cell => cell.model.type === 'code').flatMap(cell => cell.model.outputs.toJSON())"
            ".filter(o => o.output_type === 'error' || o.name === 'stderr').map(o => o.evalue ?? String(o.text))"
        )

    def save(self) -> None:
        """Write the file."""
        self.do("await app.shell.currentWidget.context.save()")

    def command(self, name: str, **arguments) -> None:
        """One of JupyterLab's commands, to its end."""
        self.do("await app.commands.execute(arg[0], arg[1])", [name, arguments])

    def too_wide(self) -> list[str]:
        """What in this notebook needs scrolling sideways, in words: the page itself, reports and figures."""
        return self.page.evaluate(
            """selector => {
              const panel = document.querySelector(selector);
              const wide = [...panel.querySelectorAll(
                '.jp-WindowedPanel-outer, .jp-OutputArea-output, .jp-RenderedHTMLCommon, .jp-RenderedImage, img')];
              const right = panel.getBoundingClientRect().right;
              return [document.documentElement, ...wide]
                .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline'
                          || e.tagName === 'IMG' && e.getBoundingClientRect().right > right + 1)
                .map(e => `${e.tagName}.${e.className}: ${e.scrollWidth} in ${e.clientWidth}`);
            }""",
            self.panel,
        )


def picture(page: Page | Locator, name: str) -> None:
    """Leave a picture of what is seen in $COURSE_PICTURES, where that is set; of few colours, and so small."""
    if folder := os.environ.get("COURSE_PICTURES"):
        seen = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        seen.quantize(64).save(Path(folder) / f"{name}.png", optimize=True)


def faults(
    page: Page, within: str = "body", *, without: tuple[str, ...] = (), known: tuple[str, ...] = ()
) -> list[str]:
    """What axe finds wrong in a part of the page, in words.

    without: elements that are not looked at. known: axe's names of rules that are left out. The caller says why.
    """
    options = {"rules": {rule: {"enabled": False} for rule in known}, "resultTypes": ["violations"]}
    context = {"include": [[within]], "exclude": [[element] for element in without]}
    found = Axe().run(page, context=context, options=options).response["violations"]
    return [f"{rule['id']}: {node['html'][:160]} {node['failureSummary']}" for rule in found for node in rule["nodes"]]
