"""What all tests share: no progress of a real learner is touched, and the seconds of each group are printed."""

from __future__ import annotations

from collections import defaultdict

import pytest

_seconds: dict[str, float] = defaultdict(float)


@pytest.fixture(autouse=True)
def no_real_progress(tmp_path_factory, monkeypatch):
    """Checks made by tests are nobody's progress."""
    monkeypatch.setenv("AUTOGRADER_PROGRESS", str(tmp_path_factory.getbasetemp() / "progress.json"))


def pytest_runtest_logreport(report):
    _seconds[report.nodeid.split("::")[0].rsplit("/", 1)[-1]] += report.duration


def pytest_terminal_summary(terminalreporter):
    terminalreporter.section("seconds per group")
    for group, seconds in sorted(_seconds.items(), key=lambda item: -item[1]):
        terminalreporter.write_line(f"{seconds:8.1f}  {group}")
