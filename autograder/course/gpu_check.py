"""`make gpu-check`: every reference solution and every lesson on a CUDA machine, with what was gained and the limits.

Also `python -m autograder.course.gpu_check` from the repository, where torch is the machine's own.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from autograder import chapters, lab
from autograder.course import lessons
from autograder.course.reference import references, repository, source_notebook
from autograder.exercise import Exercise
from autograder.judge import Verdict, judge_notebook, read_cells

SECONDS = 600  # for everything together
WITHOUT_MODEL = "shape:smollm2-135m"  # the default model's geometry; time does not depend on its values

out = Console(highlight=False)


def main() -> int:
    """0 when everything earned full marks and ran, 1 when not, 2 where there is no CUDA device."""
    import torch
    import transformers

    out.print(f"torch {torch.__version__} (CUDA {torch.version.cuda}), transformers {transformers.__version__}")
    root = repository()
    if not torch.cuda.is_available() or root is None:
        lacking = "no CUDA device, or this torch cannot use it" if root else "no repository, only the package"
        print(f"gpu-check: there is {lacking}: nothing was checked (see `autograder doctor`)", file=sys.stderr)
        return 2
    found = look(root, time.monotonic() + SECONDS)
    out.print(table(found))
    out.print(f"written to {write(found, root).relative_to(root)}")
    return 0 if found["ok"] else 1


def look(root: Path, deadline: float) -> dict:
    """What the solutions and the lessons did on this machine, as plain data; on whatever device there is."""
    _model_or_its_shape()
    card = lab.machine_card()
    out.print(str(card))
    exercises = []
    for slug in chapters.SLUGS:
        out.print(f"solutions of {slug} ...")
        report = judge_notebook(
            read_cells(source_notebook(slug, root)), chapters.load(slug), reference=references(root)
        )
        exercises += [_row(slug, verdict, card.bandwidth) for verdict in report.verdicts]
    ran = [_lesson(path, deadline) for path in sorted((root / "notebooks").glob("*.ipynb"))]
    ok = all(row["points"] == row["max_points"] for row in exercises) and all(row["ok"] for row in ran)
    return {"ok": ok, "machine": card.to_json(), "exercises": exercises, "lessons": ran}


def table(found: dict) -> Table:
    """Exercises with what their solutions gain over the slow way, and lessons with their time."""
    drawn = Table(box=None, padding=(0, 1))
    for heading in ("", "points", "slow way, ms", "solution, ms", "floor, ms", "speedup"):
        drawn.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for row in found["exercises"]:
        speed = [f"{row[key] * 1e3:.3g}" if row.get(key) else "" for key in ("baseline", "solution", "floor")]
        gain = f"{row['speedup']:.2f}x" if "speedup" in row else row["note"]
        drawn.add_row(row["name"], f"{row['points']:g} of {row['max_points']:g}", *speed, gain)
    for row in found["lessons"]:
        drawn.add_row(row["name"], "ran" if row["ok"] else "failed", "", "", "", row["note"])
    return drawn


def write(found: dict, root: Path) -> Path:
    """Keep what was found, raw samples and the machine's card included, under a name made from the GPU's."""
    machine = re.sub(r"\W+", "_", found["machine"]["name"]).strip("_").lower()
    path = root / "notebooks" / "reference" / f"gpu_check_{machine}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path


def _model_or_its_shape() -> None:
    try:
        lab.default_model.ensure()
    except lab.LabError as error:
        os.environ["COURSE_MODEL"] = WITHOUT_MODEL
        out.print(f"{error}\nThe lessons run with random weights of the same shape instead.")


def _row(slug: str, verdict: Verdict, bandwidth: float) -> dict:
    """One exercise. Seconds are those of one call; the floor is reading the bytes it must read."""
    row = {
        "chapter": slug,
        "name": verdict.name,
        "points": verdict.points,
        "max_points": verdict.max_points,
        "note": (verdict.review or verdict.note or "").splitlines()[0] if verdict.review or verdict.note else "",
    }
    speed = verdict.speed
    if not speed:
        return row
    if not speed["measurable"]:
        return row | {"note": "not measurable here", "speed": speed}
    exercise, calls = chapters.find(verdict.name), speed["calls_per_block"]
    assert isinstance(exercise, Exercise)
    return row | {
        "baseline": median(speed["seconds"]["baseline"]) / calls,
        "solution": median(speed["seconds"]["learner"]) / calls,
        "floor": exercise.bytes_moved(speed["workload"]) / bandwidth,
        "speedup": speed["ratio"],
        "speed": speed,
    }


def _lesson(path: Path, deadline: float) -> dict:
    out.print(f"{path.stem} ...")
    try:
        seconds = lessons.run(path, seconds=max(0.0, deadline - time.monotonic()))
    except lessons.LessonError as error:
        return {"name": path.name, "ok": False, "note": str(error)}
    return {"name": path.name, "ok": True, "seconds": seconds, "note": f"{seconds:.0f} s"}


if __name__ == "__main__":
    sys.exit(main())
