"""What a learner meets in JupyterLab: lessons run, checks answer, and nothing done by accident does harm."""

from __future__ import annotations

import base64
import io
import re
import shutil
from collections.abc import Iterator

import nbformat
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from autograder import chapters
from autograder.tests import browser
from autograder.tests.browser import Notebook, Server, faults, new_page, picture
from autograder.tests.classes import REPOSITORY

pytestmark = pytest.mark.browser

chromium = browser.chromium
SLUG, MEASURED = "00_measure_honestly", "01_prefill_and_decode"
LESSON = f"work/lessons/{SLUG}.ipynb"
ASSIGNMENT = f"work/assignments/{SLUG}/{SLUG}.ipynb"
ENDLESS = "def median_and_iqr(samples):\n    while True:\n        pass"
RAISING = """def median_and_iqr(samples):
    return samples.middle"""


def solution(name: str, slug: str = SLUG) -> str:
    """The course's own answer to an exercise."""
    cells = nbformat.read(REPOSITORY / "source" / slug / f"{slug}.ipynb", 4).cells
    (source,) = (c.source for c in cells if c.metadata.get("nbgrader", {}).get("grade_id") == f"{name}_solution")
    return source


WRONG = solution("median_and_iqr").replace("return middle,", "return np.mean(samples),")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """JupyterLab on a copy of the repository, as `make lab` leaves it on the screen."""
    root = tmp_path_factory.mktemp("learner") / "course"
    root.mkdir()
    for name in ("notebooks", "release", "source"):
        shutil.copytree(REPOSITORY / name, root / name)
    shutil.copy(REPOSITORY / "nbgrader_config.py", root)
    with browser.jupyterlab(root, tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="module")
def page(chromium, server) -> Iterator[Page]:
    page = new_page(chromium, server)
    yield page
    page.context.close()


@pytest.fixture(scope="module")
def assignment(page) -> Notebook:
    """The first assignment, its imports run."""
    opened = Notebook(page, ASSIGNMENT)
    opened.run("imports")
    return opened


@pytest.fixture
def fresh(assignment) -> Notebook:
    """The same in a kernel of its own, where nothing has run."""
    assignment.do("await app.shell.currentWidget.sessionContext.session.kernel.restart()")
    assignment.command("notebook:clear-all-cell-outputs")
    return assignment


def checked(notebook: Notebook, name: str, source: str) -> str:
    """What the check of an answer shows."""
    dashed = name.replace("_", "-").lower()
    notebook.write(f"{dashed}-answer", source)
    notebook.run(f"{dashed}-answer", f"{dashed}-check")
    return notebook.text(f"{dashed}-check")


def test_make_lab_opens_start_here(page):
    expect(page).to_have_url(re.compile("/lab/tree/work/start_here.ipynb"))
    heading = page.get_by_role("heading", name="Making generation faster")
    expect(heading).to_be_visible()
    start = Notebook(page, "work/start_here.ipynb")
    assert start.too_wide() == []
    picture(page, "start_here")
    assert "autograder.cli lab" in (REPOSITORY / "Makefile").read_text()


def test_a_link_of_start_here_opens_the_assignment(page):
    Notebook(page, "work/start_here.ipynb")
    page.locator(f"{Notebook.panel}").get_by_role("link", name="Measure honestly", exact=True).click()
    tab = page.locator("#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current")
    expect(tab).to_have_text(f"{SLUG}.ipynb")
    expect(page.locator(Notebook.panel).get_by_role("heading", name="Assignment 00: Measure honestly")).to_be_visible()


def test_right_code_is_met_with_a_report_and_its_points(assignment):
    said = checked(assignment, "median_and_iqr", solution("median_and_iqr"))
    assert said.startswith("median_and_iqr 3 of 3") and "✓" in said and "✗" not in said
    assert "The course's own solution, with its reasons" in said
    assert assignment.result("median-and-iqr-check") == "3.0"


def test_wrong_code_is_met_with_the_likely_mistake_and_no_traceback(assignment):
    said = checked(assignment, "median_and_iqr", WRONG)
    assert "✗" in said and "stall" in said, said
    assert "Traceback" not in said and assignment.errors() == []
    assert assignment.result("median-and-iqr-check") == "2.0"
    picture(assignment.output("median-and-iqr-check"), "wrong_answer")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_reports_and_figures_are_readable_in_every_theme(assignment, theme):
    assignment.command("apputils:change-theme", theme=theme)
    assignment.page.wait_for_function(f"document.body.dataset.jpThemeName === '{theme}'")
    checked(assignment, "median_and_iqr", WRONG)
    place = assignment.do("return place('median-and-iqr-check')")
    assignment.output("median-and-iqr-check").evaluate("(e, id) => e.id = id", f"looked-at-{place}")
    assert faults(assignment.page, f"#looked-at-{place}", without=(".jp-OutputPrompt",)) == []
    assignment.run("median-and-iqr-draw")
    shown = assignment.output("median-and-iqr-draw").inner_html()
    (picture_of,) = re.findall('src="data:image/png;base64,([^"]+)"', shown)
    ground = Image.open(io.BytesIO(base64.b64decode(picture_of))).convert("RGBA").getpixel((0, 0))
    assert ground == (255, 255, 255, 255), "figures bring their own ground, so that their ink is seen on any other"
    assert assignment.too_wide() == []


def test_code_that_raises_shows_its_own_line_and_none_of_ours(assignment):
    said = checked(assignment, "median_and_iqr", RAISING)
    assert "return samples.middle" in said and "AttributeError" in said
    assert not [ours for ours in ("Traceback", "judging.py", "bench.py", "live.py", "site-packages") if ours in said]
    assert assignment.errors() == []


def test_a_check_by_keyboard_in_a_cell_that_was_typed(assignment):
    """Click into the cell, replace its text, Shift+Enter, and the same for the check."""
    editor = assignment.cell("median-and-iqr-answer").locator(".cm-content")
    editor.click()
    page = assignment.page
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("def median_and_iqr(samples):\n    return 0, 0")
    page.keyboard.press("Shift+Enter")
    assignment.cell("median-and-iqr-check").locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    expect(assignment.output("median-and-iqr-check")).to_contain_text("0 of 3")


def test_interrupting_a_long_check_leaves_the_kernel_usable(assignment):
    assignment.write("median-and-iqr-answer", ENDLESS)
    assignment.run("median-and-iqr-answer")
    assignment.run("median-and-iqr-check", wait=False)
    expect(assignment.output("median-and-iqr-check")).to_contain_text("checking your answer")
    assignment.page.locator(f'{Notebook.panel} [data-command="notebook:interrupt-kernel"]').click()
    expect(assignment.output("median-and-iqr-check")).to_contain_text("the check was stopped; nothing was marked")
    assert assignment.errors() == []
    assert "3 of 3" in checked(assignment, "median_and_iqr", solution("median_and_iqr"))


def test_work_that_is_not_saved_counts_as_it_was_run(assignment, server):
    said = checked(assignment, "SPOT_THE_MISTAKE", solution("SPOT_THE_MISTAKE"))
    assert "2 of 2" in said
    assert assignment.do("return app.shell.currentWidget.context.model.dirty")
    assert "the clock stops" not in (server.root / ASSIGNMENT).read_text().split("SPOT_THE_MISTAKE = {")[1]
    assignment.write("spot-the-mistake-answer", "SPOT_THE_MISTAKE = {}")
    assignment.run("spot-the-mistake-check")
    assert "2 of 2" in assignment.text("spot-the-mistake-check"), "what was not run since does not count"


def test_a_restarted_kernel_asks_for_the_answer_cell(fresh):
    fresh.run("imports", "median-and-iqr-check")
    assert "run your answer cell first" in fresh.text("median-and-iqr-check")
    assert "3 of 3" in checked(fresh, "median_and_iqr", solution("median_and_iqr"))


def test_cells_run_out_of_order_are_judged_and_told(fresh):
    below = "median-and-iqr-draw"
    fresh.write(below, "def halfway(samples):\n    return np.quantile(samples, 0.5)")
    fresh.save()
    answer = solution("median_and_iqr").replace("return middle,", "return halfway(samples),")
    fresh.write("median-and-iqr-answer", answer)
    fresh.run("imports", below, "median-and-iqr-answer", "median-and-iqr-check")
    said = fresh.text("median-and-iqr-check")
    assert "3 of 3" in said and "stands below" in said and "Run all cells from the top" in said


def test_the_validate_button_agrees_with_check(fresh):
    """Of five checks two are right as the notebook stands: the button names the other three."""
    fresh.write("median-and-iqr-answer", solution("median_and_iqr"))
    fresh.write("median-and-iqr-draw", "draw.summary(median_and_iqr)")
    fresh.write("time-calls-answer", "def time_calls(work, *, warmup, repeats, sync, clock):\n    return []")
    fresh.write("spot-the-mistake-answer", solution("SPOT_THE_MISTAKE"))
    fresh.save()
    fresh.page.locator(f"{Notebook.panel} .validate-button").click()
    dialog = fresh.page.locator(".jp-Dialog")
    expect(dialog.locator("#validation-message")).to_be_visible(timeout=200_000)
    said = " ".join(dialog.inner_text().split())
    dialog.get_by_role("button", name="OK").click()
    failed = set(re.findall(r'check\("(\w+)"\)', said))
    fresh.run("imports")
    by_check = {}
    for exercise in chapters.load(SLUG).exercises:
        dashed = exercise.name.replace("_", "-").lower()
        fresh.run(f"{dashed}-answer", f"{dashed}-check")
        by_check[exercise.name] = float(fresh.result(f"{dashed}-check"))
    assert failed == {e.name for e in chapters.load(SLUG).exercises if by_check[e.name] < e.points}, said
    assert by_check["median_and_iqr"] == 3 and by_check["time_calls"] < 6 and by_check["SPOT_THE_MISTAKE"] == 2


def test_a_lesson_runs_from_top_to_bottom(page):
    lesson = Notebook(page, LESSON)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    last = "cells.filter(cell => cell.model.type === 'code').at(-1).model"
    page.wait_for_function(
        "() => { const cells = window.jupyterapp.shell.currentWidget.content.widgets;"
        f"const last = {last}; return last.executionCount !== null && last.executionState === 'idle' }}",
        timeout=270_000,
    )
    assert lesson.errors() == []
    figures = page.locator(f"{Notebook.panel} .jp-OutputArea-output img")
    assert figures.count() >= 5
    assert lesson.too_wide() == []
    figures.nth(1).scroll_into_view_if_needed()
    picture(page, "lesson")


@pytest.mark.alone
def test_a_measured_check_shows_its_picture(page):
    measured = Notebook(page, f"work/assignments/{MEASURED}/{MEASURED}.ipynb")
    measured.write("generate-timed-answer", solution("generate_timed", MEASURED))
    measured.run("imports", "generate-timed-answer", "generate-timed-check")
    report = measured.output("generate-timed-check")
    assert "generate_timed" in report.inner_text() and measured.errors() == []
    assert re.search(r"\d of \d", report.inner_text())
    if "speed was not measurable" in report.inner_text():
        pytest.skip("this machine is too slow or too busy to measure anybody")
    drawn = report.locator("img")
    expect(drawn).to_be_visible()
    assert re.match(r"Your code ran at \d+\.\d\d times the speed", drawn.get_attribute("alt"))
    assert measured.too_wide() == []
    picture(report, "check")
