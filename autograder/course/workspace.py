"""work/: the learner's own copies of the course's notebooks, and JupyterLab on top of them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from autograder import lab
from autograder.course.reference import repository

RECORD = ".handed_out.json"  # path below work/ -> digest of what was put there
START = "start_here.ipynb"
SETTINGS = Path(__file__).parent / "jupyter"  # of JupyterLab: it asks nobody about news


@dataclass
class Prepared:
    """What `prepare` did, as paths below work/: copied anew, brought up to date, left alone though out of date."""

    folder: Path
    copied: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        sentences = []
        if self.copied:
            sentences.append(f"{len(self.copied)} notebooks were put into {self.folder.name}/.")
        if self.refreshed:
            sentences.append(f"The course has changed, and so were your untouched copies: {_listed(self.refreshed)}.")
        if self.kept:
            sentences.append(
                f"The course has changed, and you have worked on your copy of {_listed(self.kept)}: it stays as it "
                f"is until you ask for a fresh one with `autograder reset {self.folder.name}/{self.kept[0]}`."
            )
        return "\n".join(sentences)


def prepare(root: Path) -> Prepared:
    """Copy into root/work what is missing and refresh what the learner never changed. Nothing of theirs is touched."""
    work = Path(root) / "work"
    (work / "class").mkdir(parents=True, exist_ok=True)
    handed_out, done = _handed_out(work), Prepared(work)
    for name, original in _originals(root).items():
        copy, fresh = work / name, _digest(original)
        there = _digest(copy) if copy.exists() else None
        if there not in (None, fresh, handed_out.get(name)):  # the learner's own by now
            if handed_out.get(name) != fresh:
                done.kept.append(name)
            continue
        if there != fresh:
            (done.copied if there is None else done.refreshed).append(name)
            _write(copy, original.read_bytes())
        handed_out[name] = fresh
    _write(work / RECORD, json.dumps(handed_out, indent=1).encode())
    return done


def reset(notebook: Path, root: Path | None = None) -> str:
    """Put a fresh copy of one of work/'s notebooks back, and keep the old one beside it under a dated name.

    Returns one sentence on what was done. Raises LabError for what is not one of the course's copies.
    """
    root = root or repository()
    if root is None:
        raise lab.LabError("Fresh notebooks come from the course's repository; the package alone is installed here.")
    work, copy = (Path(root) / "work").resolve(), Path(notebook).resolve()
    originals = {work / name: original for name, original in _originals(root).items()}
    if copy not in originals:
        there = _listed([f"work/{path.relative_to(work)}" for path in originals])
        raise lab.LabError(f"{notebook} is not one of the course's copies; they are {there}.")
    original, backup = originals[copy], None
    if copy.exists():
        if copy.read_bytes() == original.read_bytes():
            return f"{notebook} is as the course made it already."
        backup = _unused(copy.with_name(f"{copy.stem}.{datetime.now():%Y-%m-%d_%H%M%S}.ipynb"))
        shutil.copy2(copy, backup)
    _write(copy, original.read_bytes())
    handed_out = _handed_out(work) | {str(copy.relative_to(work)): _digest(original)}
    _write(work / RECORD, json.dumps(handed_out, indent=1).encode())
    return f"{notebook} is fresh again" + (f"; yours is kept as {backup.name} beside it." if backup else ".")


def launch(root: Path | None = None, arguments: Sequence[str] = ()) -> None:
    """Set up what is missing, prepare work/, and become JupyterLab at start_here. Does not return.

    Without a repository there is nothing to copy: JupyterLab then opens in the current folder.
    arguments: passed on to `jupyter lab`. Raises LabError when the set-up cannot be done.
    """
    if not lab.setup.is_done():
        for sentence in lab.setup.run():
            print(sentence)
    if root is None:
        root, url = Path.cwd(), "/lab"
        print("The notebooks are in the course's repository, and only its package is installed: clone it to get them.")
    else:
        url = f"/lab/tree/work/{START}"
        if text := str(prepare(root)):
            print(text)
    sys.stdout.flush()
    os.chdir(root)
    # nbgrader's parts of JupyterLab look for nbgrader_config.py there; the formgrader alone looks in the current folder
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(
        filter(None, [str(root), str(SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH")])
    )
    # terminals in JupyterLab find `autograder` although nobody activated the environment
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *_options(root, url), *arguments])


def _options(root: Path, url: str) -> list[str]:
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # the usual user of a container
    return [
        f"--ServerApp.root_dir={Path(root).resolve()}",
        f"--LabApp.default_url={url}",
        "--LabApp.news_url=None",  # no network after set-up
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        *as_root,
    ]


def _originals(root: Path) -> dict[str, Path]:
    """{path below work/: the course's notebook}, start_here first."""
    root = Path(root)
    lessons = sorted(path for path in (root / "notebooks").glob("*.ipynb") if path.name != START)
    assignments = sorted(path for path in (root / "release").glob("*/*.ipynb") if path.stem == path.parent.name)
    start = root / "notebooks" / START
    return {
        **({START: start} if start.exists() else {}),
        **{f"lessons/{path.name}": path for path in lessons},
        **{f"assignments/{path.stem}/{path.name}": path for path in assignments},
    }


def _handed_out(work: Path) -> dict[str, str]:
    """The record of earlier copies. Where it is lost or damaged every copy counts as the learner's."""
    try:
        record = json.loads((work / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _digest(notebook: Path) -> str:
    """SHA-256 of what a person would call the notebook: opening it in JupyterLab rewrites its metadata already."""
    content = notebook.read_bytes()
    try:
        cells = [
            [cell["cell_type"], cell["source"], cell.get("outputs", []), cell["metadata"].get("nbgrader")]
            for cell in json.loads(content)["cells"]
        ]
        content = json.dumps(cells).encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # half written or not a notebook any more: its bytes are what it is
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)


def _unused(path: Path) -> Path:
    """The path, or one like it that nothing has yet."""
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.stem}_{number}.ipynb"), number + 1
    return candidate


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
