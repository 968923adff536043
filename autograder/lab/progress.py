"""One line that says what a long wait is for. A progress function takes (text, fraction or None)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Progress = Callable[[str, float | None], None]


def silent(text: str, fraction: float | None = None) -> None:
    """Say nothing."""


def line(text: str, fraction: float | None = None) -> None:
    """Show the step on one line that is written over: on stdout in a notebook, else on stderr.

    (Stderr in a notebook looks like an error; stdout in a terminal belongs to the command's own answer.)
    """
    stream = sys.stdout if "ipykernel" in sys.modules else sys.stderr
    share = "" if fraction is None else f"{fraction:4.0%}  "
    if stream.isatty() or stream is sys.stdout:
        stream.write(f"\r{share}{text}".ljust(79) + ("\n" if fraction == 1 else ""))
    else:
        stream.write(f"{share}{text}\n")
    stream.flush()


def patient(progress: Progress, seconds: float = 2.0) -> Progress:
    """The same, but silent for the first seconds: what is soon over needs no bar."""
    start = time.perf_counter()

    def later(text: str, fraction: float | None = None) -> None:
        if time.perf_counter() - start >= seconds:
            progress(text, fraction)

    return later


def with_progress(items: Sequence[Item], progress: Progress = line) -> Iterator[Item]:
    """The items one by one, as in a plain loop, with a line that says how far it is.

    It speaks between two items only, twice a second at most, and not in the first two seconds.
    """
    say, spoken = patient(progress), time.perf_counter()
    for done, item in enumerate(items, start=1):
        yield item
        if done == len(items) or time.perf_counter() - spoken >= 0.5:
            say(f"{done} of {len(items)}", done / len(items))
            spoken = time.perf_counter()
