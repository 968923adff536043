"""What the course prepares once: the default model, and a warm cache for torch.compile."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

from . import default_model
from .cache import cache_dir, one_at_a_time, writable_cache_dir
from .hardware import compiler
from .progress import Progress, line

# The kernels that the course's own solutions compile, in the sizes of their checks, so that a check seldom waits for a
# compiler. Building the first also builds what every later kernel shares.
_KERNELS = """
import torch
def one_loop(x, q, scale):
    return torch.cat([(x.float() * rows.float()).sum(dim=-1) for rows in q.chunk(4)]) * scale
narrow = torch.backends.cpu.get_cpu_capability() == "AVX2"
for rows, columns in ((771, 1056), (4096, 4096)):
    kernel = torch.compile(one_loop, dynamic=False)
    x = torch.ones(columns, dtype=torch.bfloat16 if narrow else torch.float32)
    kernel(x, torch.ones(rows, columns, dtype=torch.int8), torch.ones(rows))
"""


def run(progress: Progress = line) -> list[str]:
    """Make ready what is missing (a minute at first, a second later); sentences on what had to be left out.

    Raises LabError when the model cannot be had. A machine that cannot compile is fine: some speedups of later
    chapters will not be seen on it.
    """
    default_model.ensure(progress, thorough=True)
    if _is_warm():
        return []
    if why := why_no_compiling():
        return [why]
    with one_at_a_time("compile", lambda: progress("another process is warming the compile cache", None)):
        return [] if _is_warm() else _warm(progress)


def is_done() -> bool:
    """Whether `run` would find nothing to do (a matter of microseconds)."""
    return default_model.is_ready() and (_is_warm() or why_no_compiling() is not None)


def compile_cache() -> Path:
    """The warmed folder: a process profits when TORCHINDUCTOR_CACHE_DIR names it, or a copy of it.

    That variable is not read here, for torch writes its own default into it.
    """
    return cache_dir() / "compile"


def why_no_compiling() -> str | None:
    """One sentence on what torch.compile lacks here; None when it has what it needs."""
    if compiler() is None:
        return "There is no C++ compiler, so torch.compile is left out: install g++ (Debian: apt install g++)."
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return (
            "Python's headers are missing, so torch.compile is left out: "
            "install them (Debian: apt install python3-dev)."
        )
    return None


def _marker() -> Path:
    kernels = hashlib.sha256(_KERNELS.encode()).hexdigest()[:8]
    return compile_cache() / f"warmed-{kernels}-torch-{version('torch')}-python-{sysconfig.get_python_version()}"


def _is_warm() -> bool:
    return _marker().exists()


def _warm(progress: Progress) -> list[str]:
    """Compile the kernels in a process of their own; a sentence when that fails."""
    progress("warming the compile cache (about 20 s)", None)
    writable_cache_dir()
    compile_cache().mkdir(exist_ok=True)
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(compile_cache())}
    done = subprocess.run([sys.executable, "-P", "-c", _KERNELS], env=environment, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1][:200]
        return [f"torch.compile does not work here and is left out ({reason})."]
    _marker().touch()
    progress("the compile cache is warm", 1.0)
    return []
