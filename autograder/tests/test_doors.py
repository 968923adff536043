"""The ways in agree with each other: pyproject.toml, constraints.txt, environment.yml, README, .ci/run."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder import __version__
from autograder.course.reference import repository

ROOT = repository()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DIRECT = [Requirement(line) for line in PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
PINNED = {canonicalize_name(name): pin for name, pin in (line.split("==") for line in LINES)}


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda r: r.name)
def test_every_dependency_is_pinned_within_its_range(requirement: Requirement):
    assert requirement.specifier.contains(PINNED[canonicalize_name(requirement.name)])


def test_the_pins_are_those_of_the_course():
    assert PINNED["torch"] == "2.13.0" and PINNED["transformers"].startswith("5.24.")
    assert len(LINES) == len(PINNED) and [line for line in LINES if "+" in line or " " in line] == []
    assert [name for name in PINNED if re.match("nvidia|cuda|triton", name)] == [], "torch brings its own"


def test_no_dependency_stands_twice():
    names = [canonicalize_name(requirement.name) for requirement in DIRECT]
    assert sorted(names) == sorted(set(names))


def test_conda_takes_python_pip_and_this_package_with_the_same_pins():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, from_pip = environment["dependencies"]
    assert environment["name"] == PROJECT["name"]
    assert pip == "pip" and from_pip == {"pip": ["-c constraints.txt", "-e ."]}
    conda_python = python.removeprefix("python=")
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(f"{conda_python}.0")


def test_one_version_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    assert {PROJECT["version"], str(citation["version"]), newest, version(PROJECT["name"])} == {__version__}


def test_readme_ci_and_make_name_the_same_command():
    assert "`make test`" in (ROOT / "README.md").read_text()
    assert (ROOT / ".ci/run").read_text().rstrip().endswith("make test") and os.access(ROOT / ".ci/run", os.X_OK)


def test_contributing_starts_with_the_rule_about_release():
    text = (ROOT / "CONTRIBUTING.md").read_text().split("\n", 2)[2]
    assert text.startswith("Edit `source/`, run `autograder release`, never edit `release/`.")


def test_every_link_of_the_documents_leads_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "autograder/classroom/ELSEWHERE.md"):
        path = ROOT / name
        links = re.findall(r"\]\(([^)#]+)\)", path.read_text())
        assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_a_second_set_up_has_nothing_to_install(tmp_path: Path):
    """`make -n` says what would run: after the stamp, only the package's own quick look."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    assert "pip install" in planned(tmp_path)
    for made in (".venv/bin/pip", ".venv/.installed"):
        (tmp_path / made).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / made).touch()
    assert "pip install" not in planned(tmp_path)
    os.utime(tmp_path / "constraints.txt", (2e9, 2e9))
    assert "pip install" in planned(tmp_path)


def planned(folder: Path) -> str:
    return subprocess.run(["make", "-n", "lab"], cwd=folder, capture_output=True, text=True, check=True).stdout
