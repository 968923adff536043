"""What the course needs from a machine, item by item, each with its fix."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import default_model
from .cache import cache_dir, writable_cache_dir
from .errors import LabError
from .hardware import compiler, free_memory_bytes, memory_limit_bytes, usable_cores
from .setup import why_no_compiling


@dataclass(frozen=True)
class Item:
    """One line of the doctor's report. When `needed` is False, an item that is not ok is only a warning."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = True


def run(no_sandbox: str | None) -> list[Item]:
    """Every item, in the order in which to mend them. `no_sandbox` says why there is none; the judge knows."""
    checks = (_python, _torch, _device, _compiler, _model, _memory, _disk, _extensions)
    return [item for check in checks for item in check()] + [_sandbox(no_sandbox)]


def _python() -> Iterator[Item]:
    ok = (3, 11) <= sys.version_info < (3, 14)
    yield Item("python", ok, platform.python_version(), "use Python 3.11, 3.12 or 3.13")


def _torch() -> Iterator[Item]:
    try:
        import torch
        import transformers
    except Exception as error:  # a broken library raises what it likes
        yield Item("torch", False, f"cannot be imported ({error})", "run `make setup` again")
        return
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU build"
    yield Item("torch", True, f"{torch.__version__} ({build}), transformers {transformers.__version__}")


def _device() -> Iterator[Item]:
    try:
        from .hardware import device, processor_name

        kind, name = device().type, processor_name()
    except Exception as error:
        yield Item("device", False, f"cannot be used ({error})", "see the line on torch")
        return
    idle_gpu = kind == "cpu" and shutil.which("nvidia-smi") is not None
    detail = f"{name}, {usable_cores()} cores" if kind == "cpu" else name
    yield Item(
        "device",
        not idle_gpu,
        f"{detail}; its NVIDIA GPU is not used" if idle_gpu else detail,
        "install torch's CUDA build (`make setup` without TORCH_INDEX_URL) and check the driver with `nvidia-smi`",
        needed=False,
    )


def _compiler() -> Iterator[Item]:
    why = why_no_compiling()
    yield Item("compiler", why is None, why or str(compiler()), "apt install g++ python3-dev", needed=False)


def _model() -> Iterator[Item]:
    detail = f"in {default_model.folder()}"
    if not default_model.is_intact():
        detail = f"missing or broken {detail}"
        yield Item("model", False, detail, "run `autograder setup`")
    else:
        yield Item("model", True, detail)


def _memory() -> Iterator[Item]:
    free, limit = free_memory_bytes(), memory_limit_bytes()
    ok = free >= 2 << 30
    fix = "close other programs: 2 GB are needed to begin, 8 for chapter 04"
    yield Item("memory", ok, f"{free / 1e9:.1f} of {limit / 1e9:.1f} GB free", fix)


def _disk() -> Iterator[Item]:
    try:
        folder = writable_cache_dir()
    except LabError as error:
        yield Item("disk", False, str(error), "set AUTOGRADER_CACHE", needed=not default_model.is_ready())
        return
    free = shutil.disk_usage(folder).free
    needed = (200 << 20) + (0 if default_model.is_ready() else default_model.DISK_BYTES)
    yield Item(
        "disk",
        free >= needed,
        f"{free / 1e9:.1f} GB free in {cache_dir()}",
        f"make room for {needed >> 20} MB or set AUTOGRADER_CACHE to a folder on another disk",
    )


def _extensions() -> Iterator[Item]:
    """JupyterLab, and both halves of nbgrader in it, as files on disk say (asking Jupyter takes seconds)."""
    missing = [name for name in ("jupyterlab", "nbgrader") if importlib.util.find_spec(name) is None]
    if not missing:
        from jupyter_core.paths import jupyter_config_path, jupyter_path

        if not any(Path(path, "@jupyter", "nbgrader").is_dir() for path in jupyter_path("labextensions")):
            missing.append("nbgrader's lab extension")
        folders = [Path(path, "jupyter_server_config.d") for path in jupyter_config_path()]
        if not _enabled("nbgrader.server_extensions.formgrader", folders):
            missing.append("nbgrader's server extension")
    yield Item(
        "extensions",
        not missing,
        f"missing: {', '.join(missing)}" if missing else "JupyterLab and nbgrader",
        "run `make setup` again, then `jupyter server extension enable --sys-prefix --py nbgrader`",
        needed="jupyterlab" in missing or "nbgrader" in missing,
    )


def _enabled(extension: str, folders: list[Path]) -> bool:
    """Whether Jupyter's config enables the extension; the first folder that names it decides."""
    for folder in folders:
        for path in sorted(folder.glob("*.json"), reverse=True):
            try:
                named = json.loads(path.read_text("utf-8"))["ServerApp"]["jpserver_extensions"]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if extension in named:
                return bool(named[extension])
    return False


def _sandbox(why_not: str | None) -> Item:
    """Whether learners' code can be walled in; only class grading needs it."""
    detail = f"{why_not} (only class grading needs it)" if why_not else "a sandbox was made and held tight"
    fix = "apt install bubblewrap and allow user namespaces; until then a class you trust can be graded with "
    return Item("sandbox", why_not is None, detail, f"{fix}`--tier process`", needed=False)
