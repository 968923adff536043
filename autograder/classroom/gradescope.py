"""An assignment as an autograder for Gradescope: the zip that is uploaded there, and what it does with a submission.

The forms are those of Gradescope's "Autograder Specifications": `setup.sh` and `run_autograder` at the root of the
zip, which is unpacked in /autograder/source; a submission lies in /autograder/submission, its marks are left in
/autograder/results/results.json.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zipfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from autograder import chapters
from autograder.classroom import submission
from autograder.classroom.pipeline import discreet
from autograder.course.reference import references
from autograder.exercise import Chapter
from autograder.judge import NotebookError, Report, TierError, Verdict, cells_of, judge_notebook, report_text, sandbox
from autograder.lab import LabError

COURSE = "course"  # folder of the zip with this package and the chapter's solutions
SCRIPTS = {"setup.sh": "gradescope_setup.sh", "run_autograder": "gradescope_run.sh"}  # in the zip, and here
PACKAGED = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", "nbgrader_config.py")
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that the same course gives the same bytes
UNWALLED = "this does not stop code that sets out to forge marks"


def package(slug: str, root: Path, path: Path | None = None, *, torch_index: str = "") -> Path:
    """Write the zip for one chapter of the repository at `root`; its path.

    path: SLUG_gradescope.zip in the current folder by default.
    torch_index: address of the index from which the set-up takes torch, where the default one has too large a build.
    """
    path = path or Path(f"{slug}_gradescope.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, ours in SCRIPTS.items():
            text = (resources.files("autograder.classroom") / ours).read_text("utf-8")
            _add(archive, name, text.replace("@SLUG@", slug).replace("@TORCH_INDEX_URL@", torch_index), 0o755)
        for file in _course_files(slug, root):
            _add(archive, f"{COURSE}/{file.relative_to(root)}", file.read_bytes(), 0o644)
    return path


def _course_files(slug: str, root: Path) -> Iterator[Path]:
    yield from (root / name for name in PACKAGED)
    yield root / "source" / slug / f"{slug}.ipynb"
    package_root = root / "autograder"
    for file in sorted(package_root.rglob("*")):
        parts = file.relative_to(package_root).parts
        if file.is_file() and parts[0] != "tests" and "__pycache__" not in parts:
            yield file


def _add(archive: zipfile.ZipFile, name: str, content: str | bytes, mode: int) -> None:
    entry = zipfile.ZipInfo(name, LONG_AGO)
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def results(place: Path, slug: str) -> dict:
    """What `results.json` says of the submission in place/submission. Raises LabError when nothing can be judged."""
    begun = time.monotonic()
    chapter = chapters.load(slug)
    try:
        cells = cells_of(submission.read(_notebook(place / "submission", slug)))
    except NotebookError as error:
        report, kept_apart = _nothing(chapter, str(error)), "Nothing was run."
    else:
        report, kept_apart = _judged(cells, chapter, place / "source" / COURSE)
    tests = [_test(discreet(verdict)) for verdict in report.verdicts]
    for_a_person = ", ".join(scheme.name for scheme in chapter.written)
    return {
        "score": sum(test["score"] for test in tests),
        "execution_time": round(time.monotonic() - begun),
        "output": f"{kept_apart} Marked by a person: {for_a_person}." if for_a_person else kept_apart,
        "output_format": "text",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"tier": report.tier, "review": {v.name: v.review for v in report.verdicts if v.review}},
    }


def _notebook(folder: Path, slug: str) -> Path:
    """The notebook handed in: the one of the right name, else the only one. Raises NotebookError."""
    found = sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    right = [path for path in found if path.stem == slug] or found
    if len(right) == 1:
        return right[0]
    if not right:
        raise NotebookError(f"no notebook was handed in: {slug}.ipynb was expected")
    raise NotebookError(f"none of the {len(right)} notebooks handed in is called {slug}.ipynb")


def _judged(cells: list, chapter: Chapter, course: Path) -> tuple[Report, str]:
    """The marks, at the best tier to be had here, and a sentence on how the code was kept apart."""
    judge = {"reference": references(course)}
    if (why := sandbox.why_not()) is None:
        report = judge_notebook(cells, chapter, tier="sandbox", **judge)
        return report, "Judged at the sandbox tier: your code saw no solution, no file of others and no network."
    user = sandbox.separate_user()
    report = judge_notebook(cells, chapter, tier="process", user=user, **judge)
    if user is None:
        return report, f"Judged at the process tier, for {why}: {UNWALLED}."
    return report, f"Judged at the process tier, by a user of its own that cannot read the course's files, for {why}."


def _nothing(chapter: Chapter, reason: str) -> Report:
    made = [Verdict(e.name, 0.0, e.points, "review", review=reason, tier="none") for e in chapter.exercises]
    return Report(chapter.slug, "none", made)


def _test(verdict: Verdict) -> dict:
    """One exercise as one of Gradescope's test cases."""
    return {
        "name": verdict.name,
        "score": verdict.points,
        "max_score": verdict.max_points,
        "status": "passed" if verdict.full else "failed",
        "output": report_text(verdict),
        "output_format": "text",
        "visibility": "visible",
    }


def main() -> None:
    """Judge PLACE/submission by a chapter and write PLACE/results/results.json: run_autograder's whole work.

    What cannot be judged at all leaves no results behind, and Gradescope then says that the autograder failed:
    that is nobody's zero.
    """
    place, slug = Path(sys.argv[1]), sys.argv[2]
    path = place / "results" / "results.json"
    path.unlink(missing_ok=True)
    try:
        found = results(place, slug)
    except (LabError, TierError) as error:
        sys.exit(f"nothing was judged: {error}")
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(found, ensure_ascii=False, indent=1), "utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main()
