"""The chapters of the course, and the index from an exercise's name to its chapter. Imports no torch."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from autograder.exercise import Chapter, Exercise, MarkScheme

SLUGS = (
    "00_measure_honestly",
    "01_prefill_and_decode",
    "02_the_fastest_possible",
    "03_kv_cache",
    "04_quantize_weights",
    "05_fewer_bits",
    "06_prefix_caching",
)


@cache
def load(slug: str) -> Chapter:
    """The chapter with this slug. Raises KeyError, naming the ones there are."""
    if slug not in SLUGS:
        raise KeyError(f"there is no chapter {slug!r}; there are {', '.join(SLUGS)}")
    return import_module(f"autograder.chapters.c{slug}").CHAPTER


@cache
def _index() -> dict[str, tuple[str, Exercise | MarkScheme]]:
    return {item.name: (slug, item) for slug in SLUGS for item in (*load(slug).exercises, *load(slug).written)}


def names() -> list[str]:
    """Every exercise and written question of the course, in order."""
    return list(_index())


def chapter_of(name: str) -> str | None:
    """The slug of the chapter that has this exercise or written question."""
    return _index()[name][0] if name in _index() else None


def find(name: str) -> Exercise | MarkScheme | None:
    """The exercise or mark scheme with this name."""
    return _index()[name][1] if name in _index() else None


def chapter_of_notebook(notebook: dict, folder: str = "") -> str | None:
    """A notebook's chapter: its metadata `autograder.chapter`, else most of its grade ids, else its folder."""
    metadata = notebook.get("metadata", {})
    stated = metadata.get("autograder") if isinstance(metadata, dict) else None
    if isinstance(stated, dict) and stated.get("chapter") in SLUGS:
        return stated["chapter"]
    votes = [chapter for cell in notebook.get("cells", []) if (chapter := chapter_of(_grade_id(cell)))]
    if votes:
        return max(SLUGS, key=votes.count)
    return folder if folder in SLUGS else None


def _grade_id(cell: dict) -> str:
    metadata = cell.get("metadata", {}) if isinstance(cell, dict) else {}
    nbgrader = metadata.get("nbgrader", {}) if isinstance(metadata, dict) else {}
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return grade_id.removesuffix("_solution") if isinstance(grade_id, str) else ""
