"""The chapters are one course: each begins where the one before ended, and goes on with what was built there."""

from __future__ import annotations

import ast
import json
import re
from itertools import pairwise

import pytest

from autograder import chapters
from autograder.course import built as shelf
from autograder.course.reference import repository

ROOT = repository()
NUMBERS = [slug[:2] for slug in chapters.SLUGS]
QUESTION = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def cells(path: str) -> list[dict]:
    return json.loads((ROOT / path).read_text("utf-8"))["cells"]


def lesson(slug: str) -> list[dict]:
    return cells(f"notebooks/{slug}.ipynb")


def assignment(slug: str) -> list[dict]:
    return cells(f"source/{slug}/{slug}.ipynb")


def text(cell: dict) -> str:
    return "".join(cell["source"])


def asked_of_built(notebook: list[dict]) -> list[str]:
    """The names that a notebook's code asks `built` for."""
    trees = [ast.parse(text(cell)) for cell in notebook if cell["cell_type"] == "code"]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [arg.value for call in calls if ast.unparse(call.func) == "built" for arg in call.args]


def rows(path: str, text_of) -> dict[str, tuple[str, str]]:
    """Chapter number -> (question, minutes) in the table of chapters."""
    lines = [line.split("|") for line in text_of(path).splitlines() if re.match(r"\| 0\d", line)]
    return {line[1].strip()[:2]: (QUESTION.search(line[2])[1], line[4].strip()) for line in lines if "[" in line[2]}


@pytest.mark.parametrize("slug", chapters.SLUGS[1:])
def test_a_lesson_goes_on_with_what_was_built_before_it_and_with_nothing_later(slug):
    built_in = [chapters.chapter_of(shelf._exercise_with(name).name) for name in asked_of_built(lesson(slug))]
    assert [earlier for earlier in built_in if earlier < slug]
    assert not [later for later in built_in if later > slug]


@pytest.mark.parametrize("slug", chapters.SLUGS[1:])
def test_a_lesson_says_once_what_built_does(slug):
    page = " ".join(text(cell) for cell in lesson(slug))
    assert page.count("yours if it has full marks, otherwise the course's; the line it prints says which") == 1


@pytest.mark.parametrize("slug", chapters.SLUGS)
def test_lessons_have_one_shape(slug):
    first, *_ = pages = [text(cell) for cell in lesson(slug) if cell["cell_type"] == "markdown"]
    assert re.search(r"\n\nYou will be able to\n\n(- [a-z][^\n]*,\n){2,4}- [^\n]*\.\n\n[23][05] minutes, ", first)
    headings = [page.splitlines()[0] for page in pages[-3:]]
    assert headings == ["## Three things learnt", "### An open question", "### What to read"]
    assert len(re.findall(r"^\d\. ", pages[-3], re.M)) == 3
    assert pages[-1].splitlines()[-1].startswith("Next: the assignment of this chapter, where you")


@pytest.mark.parametrize(("slug", "following"), [*pairwise(chapters.SLUGS), (chapters.SLUGS[-1], None)])
def test_a_chapter_leads_to_the_next_which_begins_there(slug, following):
    open_question, last = text(lesson(slug)[-2]), text(assignment(slug)[-2])
    assert last.startswith("## Your points")
    if following is None:
        assert "still to come" in open_question and "still to come" in last
        return
    assert f"hapter {following[:2]}" in open_question and f"Next: lesson {following[:2]} " in last
    beginning = text(lesson(following)[0])
    assert f"Comes after {slug[:2]}, " in beginning
    assert f"hapter {slug[:2]}" in beginning, "the page does not pick up from the chapter before"
    assert f"Comes after lesson {following[:2]}." in text(assignment(following)[0])


def test_every_table_of_chapters_says_the_same():
    readme = rows("README.md", lambda path: (ROOT / path).read_text("utf-8"))
    start = rows("notebooks/start_here.ipynb", lambda path: "\n".join(map(text, cells(path))))
    assert {number: row[0] for number, row in readme.items()} == {number: row[0] for number, row in start.items()}
    assert sorted(start) == NUMBERS
    for slug in chapters.SLUGS:
        minutes = [re.search(r"^(\d+) minutes", text(page[0]), re.M)[1] for page in (lesson(slug), assignment(slug))]
        assert start[slug[:2]][1] == readme[slug[:2]][1] == " + ".join(minutes)


def test_no_page_sends_anybody_to_a_chapter_that_is_not_there():
    pages = [text(cell) for slug in chapters.SLUGS for cell in lesson(slug) + assignment(slug)]
    named = {number for page in pages for number in re.findall(r"(?:[Cc]hapter|[Ll]esson) (\d\d)\b", page)}
    assert named == set(NUMBERS)
