"""`make gpu-check` where there is no GPU, and what it keeps where there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from autograder.course import gpu_check
from autograder.judge import Verdict

SPEED = {
    "measurable": True,
    "ratio": 4.0,
    "workload": {},
    "calls_per_block": 2,
    "seconds": {"baseline": [0.08, 0.08, 0.2], "learner": [0.02, 0.02, 0.02], "reference": [0.02, 0.02, 0.02]},
}


def test_without_cuda_it_fails_loudly(monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert gpu_check.main() == 2
    captured = capsys.readouterr()
    assert "no CUDA device" in captured.err and "torch" in captured.out and "transformers" in captured.out


def test_a_row_has_the_seconds_of_one_call():
    row = gpu_check._row("01_x", Verdict("generate_timed", 8.0, 8.0, "full", speed=SPEED), bandwidth=1e12)
    assert (row["baseline"], row["solution"], row["speedup"]) == (0.04, 0.01, 4.0)
    assert row["speed"]["seconds"] == SPEED["seconds"], "raw samples travel along"


def test_what_was_found_is_drawn_and_kept_under_the_gpus_name(tmp_path: Path):
    slow = Verdict("generate_timed", 6.0, 8.0, "partial", speed=SPEED | {"measurable": False})
    found = {
        "ok": False,
        "machine": {"name": "NVIDIA H200 (SXM)"},
        "exercises": [gpu_check._row("01_x", slow, bandwidth=1e12)],
        "lessons": [{"name": "00_x.ipynb", "ok": False, "note": "its kernel died in cell 3"}],
    }
    path = gpu_check.write(found, tmp_path)
    assert path == tmp_path / "notebooks/reference/gpu_check_nvidia_h200_sxm.json"
    assert json.loads(path.read_text()) == found
    console = Console(width=200)
    with console.capture() as drawn:
        console.print(gpu_check.table(found))
    for words in ("6 of 8", "not measurable here", "its kernel died in cell 3"):
        assert words in drawn.get()
