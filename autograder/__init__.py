"""Making generation faster: what a notebook of the course imports.

`check(name)` judges an answer and returns its points, `hint(name)` asks you a question, `rubric(name)` shows how a
written answer is marked, `progress()` draws how far you are, `answer(name)` hands a lesson what you built. They are
found when they are first used, so importing this package costs nothing and works where only the bench
(`autograder.lab`) is present.
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["answer", "check", "hint", "progress", "rubric"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'autograder' has no attribute {name!r}")
    from autograder.course import live

    return getattr(live, name)
