"""What all tests share: no progress of a real learner is touched, nothing is left behind, and groups are timed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

_seconds: dict[str, float] = defaultdict(float)
_run = f"tests-{os.getpid()}"
_mounts_before: set[str] = set()
_left: list[str] = []
LONG = ("test_faults", "test_large_class", "test_jupyterhub", "test_gradescope", "test_cluster")
_others = {"pytest-of-", "torchinductor_", "matplotlib-", "node-compile-cache"}  # of tools that keep such folders


def pytest_configure(config):
    """Temporary files of this run go into a folder of its own, and its processes can be told by their environment."""
    os.environ["AUTOGRADER_TESTS"] = _run
    os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="mgf-")
    tempfile.tempdir = None
    _mounts_before.update(_mounts())


def pytest_unconfigure(config):
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)


def pytest_collection_modifyitems(items):
    """Files with few long tests first, so that no core waits for them at the end."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(autouse=True)
def no_real_progress(tmp_path_factory, monkeypatch):
    """Checks made by tests are nobody's progress."""
    monkeypatch.setenv("AUTOGRADER_PROGRESS", str(tmp_path_factory.getbasetemp() / "progress.json"))


def pytest_runtest_logreport(report):
    _seconds[report.nodeid.split("::")[0].rsplit("/", 1)[-1]] += report.duration


def pytest_sessionfinish(session, exitstatus):
    """After the whole suite no process, socket, mount or temporary file is left."""
    until = time.monotonic() + 10
    while (left := _left_behind()) and time.monotonic() < until:
        time.sleep(0.2)
    if hasattr(session.config, "workeroutput"):  # one of several processes that share the tests
        session.config.workeroutput["left"] = left
    _left.extend(left)
    if _left and exitstatus == 0:
        session.exitstatus = 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    _left.extend(getattr(node, "workeroutput", {}).get("left", []))


def _left_behind() -> list[str]:
    """What this run has started or made and that is still there, in words."""
    found = []
    for process in psutil.process_iter(["name", "pid", "ppid", "status"]):
        if process.pid == os.getpid() or process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        with suppress(psutil.Error):
            if process.environ().get("AUTOGRADER_TESTS") == _run or os.getpid() in [p.pid for p in process.parents()]:
                found.append(f"process {process.pid}: {' '.join(process.cmdline())[:120]}")
    places = [c.laddr for c in psutil.Process().net_connections("unix") if "making-generation-faster" in str(c.laddr)]
    found += [f"a sandbox's place: {place}" for place in places]
    found += [f"a mount: {line}" for line in _mounts() - _mounts_before]
    names = [path.name for path in Path(os.environ["TMPDIR"]).iterdir()]
    return found + [f"a temporary file: {name}" for name in names if not name.startswith(tuple(_others))]


def _mounts() -> set[str]:
    path = Path("/proc/self/mounts")
    return set(path.read_text().splitlines()) if path.exists() else set()


def pytest_terminal_summary(terminalreporter):
    for what in _left:
        terminalreporter.write_line(f"left behind: {what}", red=True)
    terminalreporter.section("seconds per group")
    for group, seconds in sorted(_seconds.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{seconds:8.1f}  {group}")
