"""The course's folder outside the repository: where it is, how to write into it, one writer at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from platformdirs import user_cache_dir

from .errors import LabError


def cache_dir() -> Path:
    """Folder of the model and the machine card: $AUTOGRADER_CACHE, else the user's cache folder.

    It is not made here: reading must work where nothing can be written.
    """
    return Path(os.environ.get("AUTOGRADER_CACHE") or user_cache_dir("making-generation-faster")).absolute()


def writable_cache_dir() -> Path:
    """The same folder, made if missing. Raises LabError when nothing can be written there."""
    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise LabError(
            f"Nothing can be written to {folder} ({error.strerror}): set AUTOGRADER_CACHE to a folder you can write to."
        ) from None
    return folder


@contextlib.contextmanager
def one_at_a_time(name: str, waiting: Callable[[], None], *, shared: bool = False) -> Iterator[None]:
    """Hold the lock `name` in the cache folder; `waiting()` is called once when another process holds it.

    Any number may hold it `shared`, while nobody holds it alone. The lock belongs to the process: it is free again
    however the process ends.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    place = writable_cache_dir() / f"{name}.lock"
    try:
        lock = open(place, "w", opener=lambda path, flags: os.open(path, flags, 0o600))  # noqa: SIM115
        os.fchmod(lock.fileno(), 0o600)  # whoever can read a file can lock it
    except PermissionError:
        raise LabError(f"{place} is somebody else's: set AUTOGRADER_CACHE to a folder of your own.") from None
    with lock:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, kind)
        yield


def write_atomically(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never a part."""
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    partial.write_text(text, "utf-8")
    partial.replace(path)
