"""work/ is the learner's: it gets what is missing and what is new, and loses nothing."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder.course import workspace
from autograder.course.reference import repository
from autograder.lab import LabError

LESSON, ASSIGNMENT = "lessons/00_first.ipynb", "assignments/00_first/00_first.ipynb"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=[new_markdown_cell(text, id="text"), new_code_cell("1 + 1", id="sum")]), path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A course of one chapter."""
    write(tmp_path / "notebooks/start_here.ipynb", "# Start")
    write(tmp_path / "notebooks/00_first.ipynb", "# Lesson")
    write(tmp_path / "release/00_first/00_first.ipynb", "# Assignment")
    return tmp_path


def edit(path: Path, change) -> None:
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    nbformat.write(notebook, path)


def test_what_is_missing_is_copied_once(root: Path):
    assert workspace.prepare(root).copied == ["start_here.ipynb", LESSON, ASSIGNMENT]
    assert (root / "work" / ASSIGNMENT).read_bytes() == (root / "release/00_first/00_first.ipynb").read_bytes()
    assert (root / "work/class").is_dir()
    again = workspace.prepare(root)
    assert not (again.copied or again.refreshed or again.kept) and str(again) == ""


def test_an_untouched_copy_follows_the_course(root: Path):
    workspace.prepare(root)
    write(root / "notebooks/00_first.ipynb", "# A better lesson")
    assert workspace.prepare(root).refreshed == [LESSON]
    assert "better" in (root / "work" / LESSON).read_text()


@pytest.mark.parametrize(
    "change",
    [
        lambda notebook: notebook.cells[0].update(source="# My notes"),
        lambda notebook: notebook.cells[1].update(outputs=[new_output("stream", text="2")]),
        lambda notebook: notebook.cells.pop(),
    ],
    ids=["edited", "run", "cell deleted"],
)
def test_a_copy_the_learner_changed_is_never_touched(root: Path, change):
    workspace.prepare(root)
    edit(root / "work" / LESSON, change)
    theirs = (root / "work" / LESSON).read_bytes()
    assert not workspace.prepare(root).kept, "nothing to say while the course is the same"
    write(root / "notebooks/00_first.ipynb", "# A better lesson")
    prepared = workspace.prepare(root)
    assert prepared.kept == [LESSON] and f"autograder reset work/{LESSON}" in str(prepared)
    assert (root / "work" / LESSON).read_bytes() == theirs


def test_opening_a_notebook_does_not_change_it(root: Path):
    workspace.prepare(root)
    edit(root / "work" / LESSON, lambda notebook: notebook.metadata.update(language_info={"name": "python"}))
    write(root / "notebooks/00_first.ipynb", "# A better lesson")
    assert workspace.prepare(root).refreshed == [LESSON]


def test_without_a_record_every_copy_is_the_learners(root: Path):
    workspace.prepare(root)
    (root / "work" / workspace.RECORD).write_text("{half")
    write(root / "notebooks/00_first.ipynb", "# A better lesson")
    prepared = workspace.prepare(root)
    assert prepared.kept == [LESSON] and not prepared.refreshed


def test_a_broken_copy_is_kept(root: Path):
    workspace.prepare(root)
    (root / "work" / LESSON).write_text('{"cells": [')
    write(root / "notebooks/00_first.ipynb", "# A better lesson")
    assert workspace.prepare(root).kept == [LESSON]


def test_reset_puts_a_fresh_copy_back_and_loses_nothing(root: Path):
    workspace.prepare(root)
    copy = root / "work" / ASSIGNMENT
    for mine in ("# Mine", "# Mine again"):
        write(copy, mine)
        assert workspace.reset(copy, root).endswith("beside it.")
        assert copy.read_bytes() == (root / "release/00_first/00_first.ipynb").read_bytes()
    backups = sorted(copy.parent.glob("00_first.2*.ipynb"))
    assert [nbformat.read(path, as_version=4).cells[0].source for path in backups] == ["# Mine", "# Mine again"]
    assert "already" in workspace.reset(copy, root)
    write(root / "release/00_first/00_first.ipynb", "# A better assignment")
    assert workspace.prepare(root).refreshed == [ASSIGNMENT], "a fresh copy follows the course again"


def test_reset_brings_back_a_deleted_copy(root: Path):
    workspace.prepare(root)
    (root / "work" / LESSON).unlink()
    assert "fresh" in workspace.reset(root / "work" / LESSON, root)
    assert (root / "work" / LESSON).exists()


def test_reset_refuses_what_is_not_the_courses(root: Path):
    workspace.prepare(root)
    for stranger in ("source/00_first/00_first.ipynb", "work/mine.ipynb", "work"):
        with pytest.raises(LabError, match="not one of the course's copies"):
            workspace.reset(root / stranger, root)


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line `launch` would have become."""
    command: list[str] = []
    monkeypatch.setattr(os, "execv", lambda program, arguments: command.extend(arguments))
    monkeypatch.setattr(workspace.lab.setup, "is_done", lambda: True)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    return command


def test_launch_opens_start_here_in_the_repository(root: Path, became: list[str], monkeypatch, capsys):
    monkeypatch.chdir("/")
    workspace.launch(root, ["--no-browser"])
    assert became[:3] == [sys.executable, "-m", "jupyterlab"] and became[-1] == "--no-browser"
    assert f"--ServerApp.root_dir={root}" in became
    assert "--LabApp.default_url=/lab/tree/work/start_here.ipynb" in became
    assert Path.cwd() == root and (root / "work/start_here.ipynb").exists()
    assert "3 notebooks" in capsys.readouterr().out


def test_all_of_nbgrader_finds_its_settings_in_jupyterlab_and_nobody_is_asked_about_news(
    root: Path, became, monkeypatch
):
    monkeypatch.chdir("/")
    workspace.launch(root)
    first, ours, theirs = os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert (first, theirs) == (str(root), "/mine")
    disabled = json.loads(Path(ours, "labconfig/page_config.json").read_text())["disabledExtensions"]
    assert disabled == {"@jupyterlab/apputils-extension:announcements": True}


def test_launch_works_with_the_package_alone(tmp_path: Path, became: list[str], monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    workspace.launch(None)
    assert f"--ServerApp.root_dir={tmp_path}" in became and not list(tmp_path.iterdir())
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_every_link_of_start_here_leads_somewhere_from_work(tmp_path: Path):
    for folder in ("notebooks", "release"):
        for path in (repository() / folder).rglob("*.ipynb"):
            copy = tmp_path / path.relative_to(repository())
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    prepared = workspace.prepare(tmp_path)
    start = json.loads((prepared.folder / "start_here.ipynb").read_text())
    text = "\n".join("".join(cell["source"]) for cell in start["cells"])
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert len(links) >= 4
    assert [link for link in links if not (prepared.folder / link).exists()] == []
