"""Timing one call, with a stop-watch that somebody else wrote."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .hardware import sync


def stopwatch(time_calls: Callable | None = None) -> Callable[..., tuple[Any, float]]:
    """`timed(work, *args)`: what one call of work gives, and its seconds on this machine's device.

    time_calls: what measures (chapter 00's contract); None for a plain stop-watch.
    """
    time_calls = time_calls or _plain

    def timed(work: Callable, *args: Any) -> tuple[Any, float]:
        given = []
        samples = time_calls(lambda: given.append(work(*args)), warmup=0, repeats=1, sync=sync, clock=time.perf_counter)
        return given[-1], float(samples[0])

    return timed


def _plain(work: Callable[[], None], **options: Any) -> list[float]:
    """One call on this machine, whatever the options ask for."""
    sync()
    start = time.perf_counter()
    work()
    sync()
    return [time.perf_counter() - start]
