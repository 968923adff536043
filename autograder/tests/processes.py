"""Processes that a test started or caused, and where to start them as nobody."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

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


def hiding_homes(shown: list[str]) -> list[str]:
    """bubblewrap's words for this machine without what lies in /root, /home and /tmp, except for these paths.

    An ordinary user can then read an interpreter that lies in root's home, and finds nothing else there.
    """
    hidden = ("/root", "/home", "/tmp")
    walls = [str(shutil.which("bwrap")), "--dev-bind", "/", "/", "--perms", "0755", "--tmpfs", "/root"]
    walls += ["--perms", "0755", "--tmpfs", "/home"]
    walls += ["--perms", "1777", "--tmpfs", "/tmp"]
    for path in dict.fromkeys(shown):
        for parent in reversed(Path(path).parents):
            if str(parent).startswith(hidden) and len(parent.parts) > 2:
                walls += ["--perms", "0755", "--dir", str(parent)]
        walls += ["--ro-bind", path, path]
    return walls


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--"]
