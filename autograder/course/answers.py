"""An answer as something to use: a lesson that builds on an exercise runs the learner's own code where it may."""

from __future__ import annotations

import ast
import linecache
import sys
import types
from pathlib import Path
from typing import Any

from autograder import chapters
from autograder.course import progress
from autograder.course.reference import references, repository
from autograder.exercise import Exercise
from autograder.judge import NotebookError, read_cells
from autograder.judge.notebook import parsed
from autograder.judge.slicing import slice_for

YOURS, COURSES = "yours", "the course's"


def answer(name: str) -> tuple[Any, str]:
    """(what stands behind an exercise's name, whose it is).

    Your own, from your copy of the assignment, where its check gave full marks; else the course's, where its solutions
    are here; else (None, a sentence about it).
    """
    exercise = chapters.find(name)
    if not isinstance(exercise, Exercise) or exercise.key is not None:
        raise KeyError(f"{name!r} is no exercise whose answer can be used")
    earned = progress.read().get(name, {}).get("points", 0)
    for path in _copies(name) if earned >= exercise.points else ():
        try:
            return _made(name, exercise, read_cells(path)), YOURS
        except (NotebookError, _Failed):
            continue  # the copy has changed since it earned its marks
    if cells := references()(name):
        return _made(name, exercise, cells), COURSES
    return None, f"{name} is not here yet: do the assignment of this chapter first, then run this lesson again"


class _Failed(Exception):
    """The cells do not make what was asked for."""


def _copies(name: str) -> list[Path]:
    """The learner's copies of the assignment that has this exercise."""
    slug, root = chapters.chapter_of(name), repository()
    if root is None:
        return []
    places = (root / "work" / part / slug / f"{slug}.ipynb" for part in ("assignments", "class"))
    return [path for path in places if path.exists()]


def _made(name: str, exercise: Exercise, cells) -> Any:
    """Execute the part of the cells on which the answer depends, in a module of its own. Raises _Failed."""
    part = slice_for(cells, exercise.names)
    module = types.ModuleType(f"answer_{name}")
    sys.modules[module.__name__] = module
    try:
        for number, index, _ in part.keep:
            source = part.cells[number]["source"]
            file = f"<{module.__name__}, {part.cells[number]['file']}>"  # what compiles and what quotes code looks here
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            statement = parsed(source).body[index]
            code = compile(ast.Module([statement], type_ignores=[]), file, "exec", flags=part.flags, dont_inherit=True)
            exec(code, module.__dict__)
        return getattr(module, name)
    except Exception as error:
        raise _Failed(f"{type(error).__name__}: {error}") from error
