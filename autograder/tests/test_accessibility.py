"""Who cannot see, or uses no mouse, can read the course: axe over notebooks and the page about a class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nbconvert.exporters import HTMLExporter
from playwright.sync_api import Page

from autograder.classroom import class_report
from autograder.tests import browser, test_class_report
from autograder.tests.browser import faults
from autograder.tests.classes import REPOSITORY, SMALL

pytestmark = pytest.mark.browser

chromium = browser.chromium
small, course, released = test_class_report.small, test_class_report.course, test_class_report.released
scripted_judge, graded_course = test_class_report.scripted_judge, test_class_report.graded_course

NOTEBOOKS = sorted(
    path.relative_to(REPOSITORY)
    for folder in ("notebooks", "release")
    for path in (REPOSITORY / folder).rglob("*.ipynb")
    if ".ipynb_checkpoints" not in path.parts
)
# JupyterLab's own colours, of its prompts and of code, which have too little contrast for axe
OF_JUPYTERLAB = (".jp-InputPrompt", ".jp-OutputPrompt", ".highlight")


@pytest.fixture
def page(chromium) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": browser.WIDTH, "height": browser.HEIGHT}, offline=True)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=lambda path: path.stem if "release" not in path.parts else f"{path.stem} (assignment)"
)
def test_a_notebook_has_headings_in_order_words_for_pictures_and_enough_contrast(path, page, tmp_path):
    made = tmp_path / "notebook.html"
    made.write_text(HTMLExporter(template_name="lab").from_filename(str(REPOSITORY / path))[0], "utf-8")
    page.goto(made.as_uri(), wait_until="domcontentloaded")
    assert faults(page, without=OF_JUPYTERLAB) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_about_a_class_is_readable_by_everybody(scheme, graded_course, page):
    path = class_report.write(SMALL, graded_course)
    page.emulate_media(color_scheme=scheme)
    page.goto(Path(path).as_uri())
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_about_a_class_serves_a_keyboard_and_a_narrow_screen(graded_course, page):
    page.set_viewport_size({"width": 320, "height": 800})
    page.goto(Path(class_report.write(SMALL, graded_course)).as_uri())
    assert faults(page) == []
    tops = []
    for _ in range(30):
        page.keyboard.press("Tab")
        tops.append(
            page.evaluate(
                "(at => at === document.body ? null : at.getBoundingClientRect().top + scrollY)(document.activeElement)"
            )
        )
        if tops[-1] is None:
            break
    reached = tops[: tops.index(None)]
    assert reached and reached == sorted(reached), "from top to bottom, and out again at the end"
