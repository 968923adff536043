"""The autograder for Gradescope, set up and run as there: submission in, results out, no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import nbformat
import pytest

from autograder import chapters, lab
from autograder.judge import sandbox
from autograder.tests.classes import REPOSITORY, changed
from autograder.tests.processes import NOBODY, hiding_homes
from autograder.tests.test_cli import autograder

SLUG = "00_measure_honestly"
ROOT = os.geteuid() == 0
PLACE = "/home/autograder"  # Gradescope's /autograder
pytestmark = pytest.mark.skipif(sandbox.why_not() is not None, reason="the platform is played inside bubblewrap")

TEXT_FORMATS = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
TEST = {
    "type": "object",
    "required": ["name", "score", "max_score", "status", "output", "output_format", "visibility"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "score": {"type": "number", "minimum": 0},
        "max_score": {"type": "number", "exclusiveMinimum": 0},
        "status": {"enum": ["passed", "failed"]},
        "output": {"type": "string", "minLength": 1},
        "output_format": TEXT_FORMATS,
        "visibility": VISIBILITY,
    },
}
RESULTS = {  # what of Gradescope's format is used here
    "type": "object",
    "required": ["score", "execution_time", "output", "tests"],
    "additionalProperties": False,
    "properties": {
        "score": {"type": "number", "minimum": 0, "maximum": 20},
        "execution_time": {"type": "integer", "minimum": 0},
        "output": {"type": "string", "minLength": 1},
        "output_format": TEXT_FORMATS,
        "stdout_visibility": VISIBILITY,
        "tests": {"type": "array", "items": TEST, "minItems": 5, "maxItems": 5},
        "extra_data": {"type": "object"},
    },
}


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("zip") / "autograder.zip"
    done = autograder("package", "gradescope", "00", "--out", str(path))
    assert done.returncode == 0 and done.stdout.strip() == str(path), done.stderr
    return path


@pytest.fixture(scope="module")
def place(package, tmp_path_factory) -> Path:
    """What Gradescope makes of the zip: unpacked, the runner copied out of it, and set up."""
    place = tmp_path_factory.mktemp("gradescope") / "autograder"
    for folder in ("source", "submission", "results"):
        (place / folder).mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "zipfile", "-e", package, place / "source"], check=True)
    (place / "source/setup.sh").chmod(0o755)
    shutil.copy(place / "source/run_autograder", place)
    (place / "run_autograder").chmod(0o755)
    # its packages are those of this environment, so that they are not downloaded once more
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "source/.venv"], check=True)
    (own,) = (place / "source/.venv/lib").glob("python3*/site-packages")
    (own / "packages.pth").write_text("\n".join(site_packages()))
    on_the_platform(place, "source/setup.sh", network=True)
    if ROOT:
        subprocess.run(["chown", "-R", "65534:65534", place], check=True)
    return place


def site_packages() -> list[str]:
    return [entry for entry in sys.path if entry.endswith("site-packages")]


def on_the_platform(
    place: Path, script: str, *, network: bool = False, user: list[str] | None = None, path: str = os.environ["PATH"]
) -> None:
    """Run a script of the autograder where nothing of this repository is to be seen."""
    shown = [sys.base_prefix, *site_packages(), str(lab.cache_dir())]
    walls = [*hiding_homes(shown), "--bind", str(place), PLACE, "--chdir", PLACE]
    walls += [] if network else ["--unshare-net"]
    environment = {"PATH": path, "HOME": "/home", "LANG": "C.UTF-8", "AUTOGRADER_CACHE": str(lab.cache_dir())}
    environment |= {name: os.environ[name] for name in ("AUTOGRADER_TESTS",) if name in os.environ}
    done = subprocess.run(
        [*walls, *(user or []), f"{PLACE}/{script}"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def graded(place: Path, files: dict[str, str], **how) -> dict:
    """The results for a submission of these files, valid by Gradescope's format."""
    for folder in ("submission", "results"):
        for old in (place / folder).iterdir():
            old.unlink()
    for name, text in files.items():
        (place / "submission" / name).write_text(text)
    on_the_platform(place, "run_autograder", **({"user": NOBODY if ROOT else None} | how))
    assert [path.name for path in (place / "results").iterdir()] == ["results.json"]
    found = json.loads((place / "results/results.json").read_text())
    jsonschema.validate(found, RESULTS)
    assert found["score"] == sum(test["score"] for test in found["tests"])
    most = {exercise.name: exercise.points for exercise in chapters.load(SLUG).exercises}
    assert {test["name"]: test["max_score"] for test in found["tests"]} == most
    assert all((test["status"] == "passed") == (test["score"] == test["max_score"]) for test in found["tests"])
    return found


def outputs(found: dict) -> dict[str, tuple[float, str]]:
    """exercise -> (score, what the student reads), in single spaces."""
    return {test["name"]: (test["score"], " ".join(test["output"].split())) for test in found["tests"]}


@pytest.fixture(scope="module")
def solved():
    return nbformat.read(REPOSITORY / "source" / SLUG / f"{SLUG}.ipynb", 4)


def test_the_package_holds_the_course_and_one_chapters_solutions_and_is_the_same_bytes_every_time(package, tmp_path):
    names = zipfile.ZipFile(package).namelist()
    assert {"setup.sh", "run_autograder", "course/constraints.txt", "course/autograder/judge/bench.py"} <= set(names)
    assert [name for name in names if name.endswith(".ipynb")] == [f"course/source/{SLUG}/{SLUG}.ipynb"]
    assert not [name for name in names if "/tests/" in name or "__pycache__" in name]
    again = tmp_path / "again.zip"
    autograder("package", "gradescope", SLUG, "--out", str(again))
    assert again.read_bytes() == package.read_bytes()


def test_the_set_up_takes_torch_from_the_index_that_is_named(tmp_path):
    path = tmp_path / "a.zip"
    autograder("package", "gradescope", "00", "--out", str(path), TORCH_INDEX_URL="https://example.org/cpu")
    setup = zipfile.ZipFile(path).read("setup.sh").decode()
    assert 'torch_index="https://example.org/cpu"' in setup


def test_full_marks_come_back_from_the_sandbox(place, solved):
    found = graded(place, {"my homework.ipynb": nbformat.writes(solved)})
    assert found["score"] == 20
    assert found["output"].startswith("Judged at the sandbox tier")
    assert found["output"].endswith("Marked by a person: when_to_trust_a_number.")


def test_code_that_crashes_or_loops_is_a_zero_with_its_reason_and_costs_the_others_nothing(place, solved):
    mixed = changed(solved, "time_calls_solution", source="def time_calls(*args, **kwargs): raise SystemExit")
    mixed = changed(mixed, "median_and_iqr_solution", source="def median_and_iqr(samples):\n    while True: pass")
    mixed = changed(mixed, "paired_ratio_solution", source="import os\ndef paired_ratio(*a, **k): os._exit(3)")
    found = outputs(graded(place, {f"{SLUG}.ipynb": nbformat.writes(mixed)}))
    assert found["time_calls"][0] == found["median_and_iqr"][0] == found["paired_ratio"][0] == 0
    assert "SystemExit" in found["time_calls"][1]
    assert "did not finish within" in found["median_and_iqr"][1]
    assert "ended its own process" in found["paired_ratio"][1]
    assert found["ratio_interval"][0] == 4 and found["SPOT_THE_MISTAKE"][0] == 2


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, f"no notebook was handed in: {SLUG}.ipynb was expected"),
        ({"notes.txt": "hello"}, f"no notebook was handed in: {SLUG}.ipynb was expected"),
        ({f"{SLUG}.ipynb": "print('hello')"}, f"{SLUG}.ipynb is not a notebook"),
        ({f"{SLUG}.ipynb": '{"cells": [{"cell_type": "co'}, "half written"),
        ({"one.ipynb": "{}", "two.ipynb": "{}"}, f"none of the 2 notebooks handed in is called {SLUG}.ipynb"),
    ],
    ids=["nothing", "no notebook", "text", "half a notebook", "two notebooks"],
)
def test_what_cannot_be_read_is_a_zero_with_its_reason(place, files, reason):
    found = graded(place, files)
    assert found["score"] == 0 and found["output"].startswith("Nothing was run.")
    assert all(reason in text for _, text in outputs(found).values())


LOOKING = f"""import os
def median_and_iqr(samples):
    found = []
    for part in ("source/{SLUG}/{SLUG}.ipynb", "autograder/chapters/__init__.py"):
        try: found.append(open("{PLACE}/source/course/" + part).read(20))
        except OSError as error: found.append(type(error).__name__)
    try: from autograder.chapters import SLUGS; found.append("chapters")
    except BaseException as error: found.append(type(error).__name__)
    try: os.listdir(f"/proc/{{os.getppid()}}/fd"); found.append("the judge")
    except OSError as error: found.append(type(error).__name__)
    try: open("{PLACE}/results/results.json", "w"); found.append("results")
    except OSError as error: found.append(type(error).__name__)
    raise ValueError(found)"""


def peeked(place: Path, solved, **how) -> tuple[dict, str]:
    """(results, what a submission that looks around has found)"""
    found = graded(
        place, {f"{SLUG}.ipynb": nbformat.writes(changed(solved, "median_and_iqr_solution", source=LOOKING))}, **how
    )
    return found, outputs(found)["median_and_iqr"][1]


@pytest.mark.cheats
def test_a_submission_finds_no_solution_in_the_sandbox(place, solved):
    found, saw = peeked(place, solved)
    assert found["score"] == 17 and "Judged at the sandbox tier" in found["output"]
    assert "'FileNotFoundError', 'FileNotFoundError', " in saw
    assert "chapters'" not in saw and "cells" not in saw and "results" not in saw


@pytest.fixture
def without_bubblewrap(place) -> str:
    """A PATH on which everything is found that run_autograder needs, and no bubblewrap."""
    tools = place / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("env", "bash", "dirname", "setpriv"):
        (tools / name).unlink(missing_ok=True)
        (tools / name).symlink_to(shutil.which(name))
    return f"{PLACE}/tools"


@pytest.mark.cheats
@pytest.mark.skipif(not ROOT, reason="only root can run a submission as somebody else")
def test_without_a_sandbox_root_judges_by_a_user_who_finds_no_solution(place, solved, without_bubblewrap):
    found, saw = peeked(place, solved, user=[], path=without_bubblewrap)
    assert found["score"] == 17, found
    assert "Judged at the process tier, by a user of its own" in found["output"]
    assert "for bubblewrap is not installed" in found["output"]
    assert "'PermissionError', 'PermissionError', " in saw
    assert "chapters'" not in saw and "the judge" not in saw and "cells" not in saw and "results" not in saw


def test_without_a_sandbox_or_root_the_results_say_what_that_means(place, solved, without_bubblewrap):
    found = graded(place, {f"{SLUG}.ipynb": nbformat.writes(solved)}, path=without_bubblewrap)
    assert found["score"] == 20
    assert "Judged at the process tier, for bubblewrap is not installed: this does not stop code" in found["output"]
