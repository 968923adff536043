"""The one device of the course, how to wait for it, and what this process may use of the machine."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import torch

_CGROUP = Path("/sys/fs/cgroup")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} | {digit: 1 for digit in "0123456789"}


@lru_cache(maxsize=1)
def device() -> torch.device:
    """The device everything runs on: the current CUDA GPU if there is one, else the CPU.

    The first call also caps torch's threads to the cores this process may use.
    """
    import torch

    if torch.get_num_threads() > usable_cores():
        torch.set_num_threads(usable_cores())
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def sync() -> None:
    """Wait until the device has done everything it was given. A CPU has done it already."""
    if device().type == "cuda":
        import torch

        torch.cuda.synchronize()


def usable_cores() -> int:
    """Cores this process may use: its affinity, cut to whole cores of the cgroup's quota (v2, else v1)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_numbers("cpu.max")
    if not quota:
        quota = _cgroup_numbers("cpu/cpu.cfs_quota_us") + _cgroup_numbers("cpu/cpu.cfs_period_us")
    return max(1, min(cores, quota[0] // quota[1])) if len(quota) == 2 else cores


def memory_limit_bytes() -> int:
    """Bytes of main memory this process may use in all: the machine's, cut down to the cgroup's limit."""
    limit = _cgroup_numbers("memory.max") or _cgroup_numbers("memory/memory.limit_in_bytes")
    return min([psutil.virtual_memory().total, *limit])


def free_memory_bytes() -> int:
    """Bytes of main memory that can be had now without swapping."""
    used = _cgroup_numbers("memory.current") or _cgroup_numbers("memory/memory.usage_in_bytes")
    left = [memory_limit_bytes() - number + _cgroup_file_cache() for number in used]
    return max(0, min([psutil.virtual_memory().available, *left]))


def compiler() -> str | None:
    """Path of the C++ compiler that torch.compile would call; None when there is none."""
    return shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++"))


def _cgroup_numbers(name: str) -> list[int]:
    """The numbers in a cgroup file; empty when it is not there or sets no limit."""
    try:
        words = (_CGROUP / name).read_text("utf-8").split()
    except OSError:
        return []
    return [int(word) for word in words if word not in ("max", "-1")] if words[:1] != ["max"] else []


def _cgroup_file_cache() -> int:
    """Bytes of cached files that the cgroup counts as used and the kernel gives back when asked."""
    for name in ("memory.stat", "memory/memory.stat"):
        with suppress(OSError):
            stat = dict(line.split() for line in (_CGROUP / name).read_text("utf-8").splitlines())
            return int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
    return 0


def last_level_cache_bytes() -> int:
    """Bytes of the last-level caches of the device; 32 MiB where the system does not say.

    On a CPU: the highest level, each cache of this process's cores counted once.
    """
    if device().type == "cuda":
        import torch

        return torch.cuda.get_device_properties(device()).L2_cache_size
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0]
    caches = {}
    for core in cores:
        for index in Path(f"/sys/devices/system/cpu/cpu{core}/cache").glob("index*"):
            level, size, shared = (
                (index / name).read_text("utf-8").strip() for name in ("level", "size", "shared_cpu_list")
            )
            caches[int(level), shared] = int(size.rstrip("KMG")) * _UNITS[size[-1]]
    top = max((level for level, _ in caches), default=0)
    return sum(size for (level, _), size in caches.items() if level == top) or 32 << 20


def processor_name() -> str:
    """The processor's or the GPU's own name."""
    if device().type == "cuda":
        import torch

        return torch.cuda.get_device_name()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "an unnamed processor"
