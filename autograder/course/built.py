"""What a learner has built: answers with full marks, kept as plain Python beside their progress, for later lessons."""

from __future__ import annotations
import __future__

import ast
import importlib.util
import linecache
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autograder import chapters
from autograder.course.progress import progress_file
from autograder.course.reference import references
from autograder.exercise import Exercise
from autograder.judge import Cell, Verdict
from autograder.judge.notebook import parsed
from autograder.judge.slicing import Slice, slice_for
from autograder.lab import LabError


class NotBuilt(LabError):
    """No exercise of the course builds what was asked for; one sentence."""


def built(*names: str) -> Any:
    """What these names stand for in your own answers that earned full marks, else in the course's. Says which.

    One name gives one object, several give a tuple; names of one exercise come from the same code. None, with a
    sentence, stands for a name where neither is here.
    """
    modules: dict[str, types.ModuleType | None] = {}
    for name in names:
        exercise = _exercise_with(name)
        if exercise.name not in modules:
            modules[exercise.name], whose = _module(exercise)
            print(f"{exercise.name}: {whose}")
    found = tuple(getattr(modules[_exercise_with(name).name], name, None) for name in names)
    return found if len(names) > 1 else found[0]


def keep(exercise: Exercise, verdict: Verdict, cells: Sequence[Cell]) -> None:
    """Keep the code of an answer with full marks. A full disk or a read-only home is no reason to stop."""
    if not verdict.full or exercise.key is not None:
        return
    path = file_of(exercise.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(slice_for(cells, exercise.names)), "utf-8")
    except OSError:
        return


def file_of(name: str) -> Path:
    """Where the code of an exercise is kept."""
    return progress_file().parent / "built" / f"{name}.py"


def text_of(part: Slice) -> str:
    """The kept statements of a slice as one module."""
    features = [name for name in __future__.all_feature_names if getattr(__future__, name).compiler_flag & part.flags]
    texts = [f"from __future__ import {', '.join(features)}"] if features else []
    for cell, index, _ in part.keep:
        source = part.cells[cell]["source"]
        texts.append(_statement(source, parsed(source).body[index]))
    return "\n\n\n".join(texts) + "\n"


def _statement(source: str, node: ast.stmt) -> str:
    decorators = getattr(node, "decorator_list", [])
    if not decorators:
        return ast.get_source_segment(source, node)
    first = min(decorator.lineno for decorator in decorators)
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


def _exercise_with(name: str) -> Exercise:
    """The exercise whose answer defines this name."""
    for known in chapters.names():
        item = chapters.find(known)
        if isinstance(item, Exercise) and item.key is None and name in item.names:
            return item
    raise NotBuilt(f"no exercise of the course builds `{name}`")


def _module(exercise: Exercise) -> tuple[types.ModuleType | None, str]:
    """(the code of an exercise, whose it is in words); (None, what to do about it) where there is none."""
    path, why = file_of(exercise.name), "yours has not earned full marks yet"
    if path.exists():
        try:
            return _from_file(exercise.name, path), f"your own, from {path.parent.name}/{path.name}"
        except Exception as error:
            why = f"yours did not load: {type(error).__name__}: {error}"
    cells = references()(exercise.name)
    if cells is None:
        slug = chapters.chapter_of(exercise.name)
        return None, f"not here ({why}): build it in the assignment {slug}, then run this again"
    return _from_text(exercise.name, text_of(slice_for(cells, exercise.names))), f"the course's ({why})"


def _from_file(name: str, path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"built_{name}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _from_text(name: str, text: str) -> types.ModuleType:
    file = f"<the course's {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = sys.modules[f"built_{name}"] = types.ModuleType(f"built_{name}")
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module
