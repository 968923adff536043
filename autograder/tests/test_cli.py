"""The command: what it prints, how it exits, and that bad input meets a sentence and never a traceback."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course.reference import repository

ROOT = repository()
CHAPTERS = (
    "00_measure_honestly",
    "01_prefill_and_decode",
    "02_the_fastest_possible",
    "03_kv_cache",
    "04_quantize_weights",
)


def autograder(*words: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess:
    """Run the command as a person would."""
    return subprocess.run(
        [sys.executable, "-m", "autograder.cli", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | environment,
        timeout=600,
    )


def notebook(folder: Path, *sources: str, name: str = "mine.ipynb", **metadata) -> Path:
    path = folder / name
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in sources]
    path.write_text(json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}))
    return path


@pytest.mark.parametrize("slug", CHAPTERS)
def test_the_courses_own_solutions_earn_full_marks(slug):
    done = autograder("check", str(ROOT / f"source/{slug}/{slug}.ipynb"), "--json")
    report = json.loads(done.stdout)
    failed = [r for e in report["exercises"] for r in e["rungs"] if not r["ok"]]
    assert (report["points"], report["max_points"]) == (20, 20), failed
    assert done.returncode == 0 and report["tier"] == "process"
    assert set(report["exercises"][0]) >= {"name", "points", "max_points", "outcome", "rungs", "speed", "seconds"}


@pytest.mark.parametrize("slug", CHAPTERS)
def test_an_untouched_release_earns_nothing(slug):
    done = autograder("check", str(ROOT / f"release/{slug}/{slug}.ipynb"), "--json")
    report = json.loads(done.stdout)
    assert (report["points"], report["max_points"], done.returncode) == (0, 20, 1)
    assert {exercise["outcome"] for exercise in report["exercises"]} == {"untouched"}


def test_one_exercise_in_words(tmp_path):
    answers = Path(__file__).parent / "answers/01/latency_metrics"
    path = notebook(
        tmp_path,
        (answers / "end_to_end_over_all.py").read_text(),
        autograder={"chapter": CHAPTERS[1]},
    )
    done = autograder("check", str(path), "--exercise", "latency_metrics")
    assert done.returncode == 1
    assert "of 5" in done.stdout and "whole time" in " ".join(done.stdout.split())
    assert "Traceback" not in done.stderr


BAD = {
    "no such file": (["check", "nowhere.ipynb"], "there is no file"),
    "a folder": (["check", "."], "is a folder"),
    "not a notebook": (["check", "text.ipynb"], "not JSON"),
    "an empty file": (["check", "empty.ipynb"], "is empty"),
    "JSON, but no notebook": (["check", "list.ipynb"], "no list of cells"),
    "a notebook of no chapter": (["check", "mine.ipynb"], "belongs to no chapter"),
    "an unknown exercise": (["check", "ours.ipynb", "--exercise", "latncy_metrics"], "did you mean 'latency_metrics'"),
    "an exercise of another chapter": (["check", "ours.ipynb", "--exercise", "time_calls"], "is in chapter 00"),
    "an unknown tier": (["check", "ours.ipynb", "--tier", "castle"], "no tier 'castle'"),
    "a tier that cannot be had": (["check", "ours.ipynb", "--tier", "node"], "for bubblewrap is not installed"),
    "an unknown hint": (["hint", "nothing"], "there is no exercise 'nothing'"),
    "an unknown chapter to grade": (["grade", "99_nothing"], "there is no chapter '99_nothing'"),
    "an unknown chapter to release": (["release", "99_nothing"], "there is no chapter '99_nothing'"),
    "no submissions": (["grade", "01", "--tier", "process"], "submi"),
    "a notebook that is no copy of the course's": (["reset", "mine.ipynb"], "mine.ipynb"),
}


@pytest.mark.faults
@pytest.mark.parametrize("case", BAD)
def test_bad_input_meets_one_sentence(case, tmp_path):
    words, sentence = BAD[case]
    (tmp_path / "text.ipynb").write_text("hello")
    (tmp_path / "empty.ipynb").write_text("")
    (tmp_path / "list.ipynb").write_text("[]")
    notebook(tmp_path, "x = 1")
    notebook(tmp_path, "x = 1", name="ours.ipynb", autograder={"chapter": CHAPTERS[1]})
    done = autograder(*words, cwd=tmp_path, PATH="/nowhere")
    said = " ".join(done.stderr.split())
    assert done.returncode == 2, done
    assert said.startswith("autograder: ") and sentence in said, said
    assert "Traceback" not in said


def test_doctor_and_status_speak_json_and_text(tmp_path):
    done = autograder("doctor", "--json")
    report = json.loads(done.stdout)
    assert {item["name"] for item in report["items"]} >= {"python", "torch", "model", "compiler"}
    assert done.returncode == (0 if report["usable"] else 1)
    done = autograder("status", AUTOGRADER_PROGRESS=str(tmp_path / "none.json"))
    assert done.returncode == 0 and "01_prefill_and_decode" in done.stdout and "Next: time_calls" in done.stdout


def test_a_hint_narrows():
    first, second = autograder("hint", "latency_metrics"), autograder("hint", "latency_metrics", "--again")
    assert first.returncode == second.returncode == 0
    assert "?" in first.stdout and "--again" in first.stdout and first.stdout != second.stdout


@pytest.mark.faults
def test_a_set_up_that_cannot_be_done_is_one_sentence_and_status_1(tmp_path):
    (tmp_path / "file").write_text("")
    done = autograder("setup", AUTOGRADER_CACHE=str(tmp_path / "file" / "cache"))
    said = " ".join(done.stderr.split())
    assert done.returncode == 1 and "autograder: " in said and "Traceback" not in said, said


@pytest.mark.faults
def test_a_missing_model_is_told_by_the_doctor_with_its_fix(tmp_path):
    done = autograder("doctor", AUTOGRADER_CACHE=str(tmp_path))
    said = " ".join(done.stdout.split())
    assert done.returncode == 1 and "autograder setup" in said and "Traceback" not in done.stderr


@pytest.mark.faults
def test_a_full_disk_is_one_sentence(monkeypatch, capsys):
    from autograder import cli

    def full():
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr(cli, "app", full)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "autograder: the disk is full: free some space and run this again\n"
