"""Processes that a test started or caused."""

from __future__ import annotations

import contextlib

import psutil


def still_running(processes: list[psutil.Process], seconds: float = 10) -> list[psutil.Process]:
    """Those that have not ended in that time; they are killed. One that waits to be collected has ended."""
    _, left = psutil.wait_procs(processes, timeout=seconds)
    running = []
    for process in left:
        with contextlib.suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
                process.kill()
    return running
