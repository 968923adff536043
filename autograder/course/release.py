"""release/: the assignments of source/ without their solutions, made by nbgrader and committed."""

from __future__ import annotations

import os
import re
import sysconfig
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

from nbgrader.converters import BaseConverter, GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import capture_log, is_solution
from traitlets.config import Config

from autograder import chapters
from autograder.lab import LabError

# nbgrader's own, and ours right after the one that takes the solutions out
PREPROCESSORS = [f"nbgrader.preprocessors.{own.__name__}" for own in GenerateAssignment.preprocessors.default()]
PREPROCESSORS.insert(
    PREPROCESSORS.index("nbgrader.preprocessors.ClearSolutions") + 1, "autograder.course.release.QuizStub"
)
STUB = re.compile(r"^# YOUR CODE HERE\nraise NotImplementedError\(\)\n?", re.MULTILINE)


class NbgraderError(LabError):
    """nbgrader could not do what was asked; one sentence."""


class QuizStub(NbGraderPreprocessor):
    """A quiz keeps its dict of None values as the place to answer, and needs no line that raises below it."""

    def preprocess_cell(self, cell, resources, cell_index):
        if is_solution(cell) and cell.cell_type == "code":
            name = cell.metadata.nbgrader["grade_id"].removesuffix("_solution")
            if getattr(chapters.find(name), "key", None) is not None:
                cell.source = STUB.sub("", cell.source).rstrip()
        return cell, resources


def generate(slugs: Iterable[str], root: Path) -> list[Path]:
    """Make release/SLUG/SLUG.ipynb from source/ (of every assignment there when no slug is given).

    The notebooks written, in order. Raises NbgraderError; release/ is then as it was.
    """
    root = Path(root).resolve()
    with tempfile.TemporaryDirectory() as folder:
        made = _generated(root, list(slugs) or assignments(root), Path(folder))
        for path, content in made.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
    return [root / path for path in made]


def differences(root: Path) -> list[str]:
    """How release/ differs from what source/ generates, one phrase per file; empty when it does not."""
    root = Path(root).resolve()
    with tempfile.TemporaryDirectory() as folder:
        expected = _generated(root, assignments(root), Path(folder))
    found = {path.relative_to(root) for path in (root / "release").rglob("*") if path.is_file()}
    found = {path for path in found if ".ipynb_checkpoints" not in path.parts}
    return [
        *(f"{path} is missing" for path in sorted(expected.keys() - found)),
        *(f"{path} does not come from source/" for path in sorted(found - expected.keys())),
        *(
            f"{path} is not what source/ generates"
            for path, content in expected.items()
            if path in found and (root / path).read_bytes() != content
        ),
    ]


def assignments(root: Path) -> list[str]:
    """The slugs that source/ has a notebook for, in order."""
    return sorted(path.stem for path in Path(root).glob("source/*/*.ipynb") if path.stem == path.parent.name)


def register(slug: str, root: Path, database: str, course_id: str = "") -> None:
    """Enter an assignment of source/ into a gradebook, leaving release/ alone. Raises NbgraderError."""
    find_alembic()
    with tempfile.TemporaryDirectory() as folder:
        config = _config(root, slug, Path(folder))
        config.CourseDirectory.update(db_url=database, course_id=course_id)
        quietly(GenerateAssignment, config)


def find_alembic() -> None:
    """nbgrader starts `alembic` by name for a new gradebook: let it, where the environment is not activated."""
    folders = [sysconfig.get_path("scripts"), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys(folders))


def quietly(kind: type[BaseConverter], config: Config) -> None:
    """Run one of nbgrader's converters without its log. Raises NbgraderError with the log's own reason."""
    converter = kind(coursedir=CourseDirectory(config=config), config=config)
    converter.force = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its database layer warns about its own habits
        result = capture_log(converter)
    if result.get("error", "").endswith("KeyboardInterrupt\n"):
        raise KeyboardInterrupt
    if not result["success"]:
        text = result.get("log", "") + "\n" + result["error"]
        reasons = re.findall(r"^\s*[\w.]*(?:Error|Exit|Exception|MissingEntry): (.+)$", text, re.MULTILINE)
        raise NbgraderError(reasons[0] if reasons else text.strip().splitlines()[-1])


def _generated(root: Path, slugs: list[str], folder: Path) -> dict[Path, bytes]:
    """{path below root: content} of the releases of these assignments, made without a gradebook."""
    if unknown := sorted(set(slugs) - set(assignments(root))):
        there = ", ".join(assignments(root)) or "nothing"
        raise NbgraderError(f"source/ has no notebook for {', '.join(unknown)}; it has {there}")
    made = {}
    for slug in slugs:
        config = _config(root, slug, folder)
        config.GenerateAssignment.no_database = True
        config.SaveCells.enabled = False
        quietly(GenerateAssignment, config)
        name = f"{slug}/{slug}.ipynb"
        made[Path("release", name)] = (folder / name).read_bytes()
    return made


def _config(root: Path, slug: str, release: Path) -> Config:
    """nbgrader's settings to turn one assignment of source/ into one below `release`, whoever's machine it is."""
    config = Config()
    config.CourseDirectory.root = str(Path(root).resolve())
    config.CourseDirectory.assignment_id = slug
    config.CourseDirectory.notebook_id = slug
    config.CourseDirectory.release_directory = str(release.resolve())
    config.GenerateAssignment.preprocessors = PREPROCESSORS
    return config
