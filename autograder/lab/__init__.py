"""The learner's bench: this machine, models, drawing. Nothing here grades, and nothing answers an exercise.

`import autograder.lab` is cheap: torch and transformers are imported when something that needs them is used.
"""

import os
import time
from importlib import import_module

from .cache import cache_dir
from .errors import LabError

# A thread that waits for another gives its core back after some microseconds. On a busy machine torch is otherwise many
# times slower: 7.8 s instead of 0.4 s for a prefill of 128 tokens, against 3% lost on a quiet one (2 cores, seen
# November 2026). It must be known before torch is imported; every process that this one starts inherits it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

clock = time.perf_counter
"""Seconds, as a float, from an arbitrary start. Call `sync()` before every `clock()`."""

_HOMES = {
    "device": "hardware",
    "sync": "hardware",
    "config": "models",
    "load_model": "models",
    "load_tokenizer": "models",
    "new_cache": "models",
    "forward": "models",
    "random_prompt": "models",
    "weight_bytes": "models",
    "ceilings": "published",
    "evaluation_ids": "evaluation",
    "evaluation_text": "evaluation",
    "evaluation_texts": "evaluation",
    "Machine": "machine",
    "machine_card": "machine",
    "stopwatch": "timing",
    "with_progress": "progress",
}
_ROOMS = ("alive", "default_model", "doctor", "draw", "hardware", "machine", "models", "published", "rotation", "setup")

__all__ = ["LabError", "cache_dir", "clock", *_HOMES, *_ROOMS]


def __getattr__(name: str):
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
