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
OF_THE_TEMPLATE: dict[str, str] = {}  # rules that nbconvert's own page fails, whatever the notebook


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
    assert faults(page, known=OF_THE_TEMPLATE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_about_a_class_is_readable_by_everybody(scheme, graded_course, page):
    path = class_report.write(SMALL, graded_course)
    page.emulate_media(color_scheme=scheme)
    page.goto(Path(path).as_uri())
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_keyboard_goes_through_the_page_about_a_class_from_top_to_bottom(graded_course, page):
    page.set_viewport_size({"width": 500, "height": 800})  # so narrow that tables scroll, and must be reached
    page.goto(Path(class_report.write(SMALL, graded_course)).as_uri())
    tops = []
    for _ in range(30):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "(at => at === document.body ? null : at.getBoundingClientRect().top + scrollY)(document.activeElement)"
        )
        if at is None or (tops and at < tops[-1]):
            break
        tops.append(at)
    scrolling = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    )
    assert scrolling >= 1 and len(tops) >= scrolling + 1, "each table that scrolls, and the list of everybody"
    assert tops == sorted(tops)
