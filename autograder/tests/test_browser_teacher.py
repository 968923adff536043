"""What a teacher does in nbgrader's pages, from the generated assignment to the feedback a student reads.

The tests stand in the order of a term and go on from each other, on one course.
"""

from __future__ import annotations

import getpass
import re
import shutil
from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from autograder import chapters
from autograder.course import workspace
from autograder.judge import sandbox
from autograder.tests import browser
from autograder.tests.browser import Notebook, Server, new_page, picture
from autograder.tests.classes import REPOSITORY, SMALL, cell, graded_copy, make_course, small_source

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(sandbox.why_not() is not None, reason="the button grades in a sandbox, and there is none here"),
]

chromium = browser.chromium
STUDENT = getpass.getuser()  # one machine, one person in both parts
QUESTION = "when_to_trust_a_number"
OWN_WORDS = "I would not trust it before both had been timed in pairs."
RIGHT = """import numpy as np
def median_and_iqr(samples):
    if not samples:
        raise ValueError("no samples")
    q1, middle, q3 = np.quantile(samples, [0.25, 0.5, 0.75])
    return middle, q3 - q1"""
MINUTES = 3 * 60_000  # milliseconds, for what judges


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """JupyterLab in a course folder, with an exchange of its own."""
    base = tmp_path_factory.mktemp("teacher")
    root = make_course(base / "course", SMALL, small_source())
    (root / "notebooks").mkdir()
    shutil.copy(REPOSITORY / "notebooks" / workspace.START, root / "notebooks")
    (base / "exchange").mkdir()
    (base / "exchange").chmod(0o777)
    with open(root / "nbgrader_config.py", "a") as config:
        config.write(f"\nc.Exchange.root = {str(base / 'exchange')!r}\nc.Exchange.cache = {str(base / 'cache')!r}\n")
    with browser.jupyterlab(root, tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="module")
def lab(chromium, server) -> Iterator[Page]:
    page = new_page(chromium, server)
    yield page
    page.context.close()


@pytest.fixture(scope="module")
def formgrader(lab, server) -> Page:
    """The formgrader in a tab of its own."""
    page = lab.context.new_page()
    page.goto(f"{server.url}/formgrader")
    return page


def row(page: Page, text: str) -> Locator:
    return page.locator("tbody tr", has_text=text)


def press(page: Page, text: str, what: str) -> str:
    """Click a button of a table's row and close the window that tells of success; what it said."""
    row(page, text).locator(f".{what} a").click()
    window = page.locator(".modal.in")
    expect(window).to_be_visible(timeout=MINUTES)
    said = window.inner_text()
    assert "Success" in said, said
    window.get_by_role("button", name="OK").click()
    expect(window).to_be_hidden()
    return said


def open_assignment_list(lab: Page) -> None:
    lab.evaluate("window.jupyterapp.commands.execute('nbgrader:open-assignment-list')")
    lab.locator("#refresh_assignments_list").click()


def score_shown(page: Page) -> str:
    return row(page, STUDENT).locator(".score").inner_text()


def test_the_formgrader_opens_from_the_menu_and_lists_the_assignment(lab):
    lab.get_by_role("menuitem", name="Nbgrader").click()
    lab.get_by_role("menuitem", name="Formgrader", exact=True).click()
    inside = lab.frame_locator("iframe").first
    expect(inside.locator("tbody tr", has_text=SMALL)).to_be_visible()
    expect(inside.locator("tbody tr", has_text=SMALL).locator(".status")).to_have_text("draft")


def test_generate_makes_the_release_without_solutions(formgrader, server):
    press(formgrader, SMALL, "assign")
    made = (server.root / "release" / SMALL / f"{SMALL}.ipynb").read_text()
    assert "raise NotImplementedError()" in made and "THE SOLUTION" not in made and "THE MODEL ANSWER" not in made
    expect(row(formgrader, SMALL).locator(".preview a")).to_be_visible()


def test_an_assignment_goes_out_and_comes_back_through_the_exchange(formgrader, lab, server):
    press(formgrader, SMALL, "release")
    open_assignment_list(lab)
    lab.locator("#released_assignments_list > .list_item", has_text=SMALL).get_by_role("button", name="Fetch").click()
    fetched = lab.locator("#fetched_assignments_list > .list_item", has_text=SMALL)
    expect(fetched).to_be_visible()
    mine = Notebook(lab, f"work/class/{SMALL}/{SMALL}.ipynb")
    ids = {c.metadata.nbgrader.grade_id: c.id for c in released(server) if "nbgrader" in c.metadata}
    mine.write(ids["median_and_iqr_solution"], RIGHT)
    mine.write(ids[QUESTION], OWN_WORDS)
    mine.save()
    open_assignment_list(lab)
    fetched.get_by_role("button", name="Submit").click()
    expect(lab.locator("#submitted_assignments_list > .list_item", has_text=SMALL)).to_be_visible()
    press(formgrader, SMALL, "collect")
    expect(row(formgrader, SMALL).locator(".num-submissions")).to_have_text("1")
    assert (server.root / "submitted" / STUDENT / SMALL / f"{SMALL}.ipynb").exists()


def released(server: Server) -> list:
    return nbformat.read(server.root / "work" / "class" / SMALL / f"{SMALL}.ipynb", 4).cells


def test_the_autograde_button_gives_the_judges_marks_from_the_sandbox(formgrader, server):
    formgrader.goto(f"{server.url}/formgrader/manage_submissions/{SMALL}")
    expect(row(formgrader, STUDENT)).to_contain_text("needs autograding")
    press(formgrader, STUDENT, "autograde")
    assert score_shown(formgrader) == "3 / 10"
    expect(row(formgrader, STUDENT)).to_contain_text("needs manual grading")
    report = cell(graded_copy(server.root, STUDENT), "median_and_iqr").outputs[0].text
    assert "3 of 3" in report and "judged at the sandbox tier" in report


def open_submission(page: Page, server: Server) -> None:
    """By its links, as somebody who marks comes to it."""
    page.goto(f"{server.url}/formgrader/gradebook/{SMALL}/{SMALL}")
    page.locator("tbody tr a", has_text="Submission #1").click()
    expect(page.locator(f"#{QUESTION}")).to_be_visible()
    page.wait_for_function("formgrader.grades?.loaded && formgrader.comments?.loaded")


def test_a_written_answer_is_marked_with_its_scheme_below_it(formgrader, server):
    open_submission(formgrader, server)
    box = formgrader.locator(".nbgrader_cell", has=formgrader.locator(f"#{QUESTION}"))
    expect(box).to_contain_text(OWN_WORDS)
    scheme = formgrader.locator(".text_cell_render", has_text=f"Mark scheme of {QUESTION}")
    assert 0 < scheme.bounding_box()["y"] - box.bounding_box()["y"] - box.bounding_box()["height"] < 100
    for point in chapters.find(QUESTION).points:
        expect(scheme).to_contain_text(re.compile(re.escape(point.point[:20])))
    expect(formgrader.locator("#notebook").first).to_contain_text("3 of 3")
    box.scroll_into_view_if_needed()
    picture(formgrader, "formgrader")
    give(formgrader, QUESTION, "4")
    comment = formgrader.locator(f"#{QUESTION}-comment")
    with formgrader.expect_response(lambda r: "/api/comment/" in r.url and r.request.method == "PUT"):
        comment.click()
        comment.press_sequentially("Points 1 and 4.")
        comment.press("Tab")


def give(page: Page, name: str, points: str) -> None:
    """Type a score, and go on to the next box with the Tab key."""
    box = page.locator(f"#{name}")
    with page.expect_response(lambda r: "/api/grade/" in r.url and r.request.method == "PUT"):
        box.click()
        box.press("Control+a")
        box.press_sequentially(points)
        box.press("Tab")


def test_a_changed_score_stays_when_it_is_graded_again(formgrader, server):
    open_submission(formgrader, server)
    give(formgrader, "median_and_iqr", "2.5")
    formgrader.goto(f"{server.url}/formgrader/manage_submissions/{SMALL}")
    expect(row(formgrader, STUDENT).locator(".score")).to_have_text("6.5 / 10")
    press(formgrader, STUDENT, "autograde")
    assert score_shown(formgrader) == "6.5 / 10"


def test_feedback_is_made_opened_as_a_page_and_fetched_by_the_student(formgrader, lab, server):
    formgrader.goto(f"{server.url}/formgrader/manage_assignments")
    press(formgrader, SMALL, "generate-feedback")
    press(formgrader, SMALL, "release-feedback")
    feedback = f"{server.url}/files/feedback/{STUDENT}/{SMALL}/{SMALL}.html"
    formgrader.goto(feedback, referer=f"{server.url}/lab")  # the server shows files to its own pages alone
    page = formgrader.locator("body")
    for shown in ("Score: 6.5 / 10.0", "Score: 4.0 / 5.0", "Points 1 and 4.", "median_and_iqr", "3 of 3"):
        expect(page).to_contain_text(shown)
    assert "THE MODEL ANSWER" not in page.inner_text()
    assert formgrader.evaluate("document.documentElement.scrollWidth <= innerWidth")
    open_assignment_list(lab)
    handed_in = lab.locator("#submitted_assignments_list .list_item", has_text=SMALL).first
    handed_in.get_by_role("button", name="Fetch Feedback").click()
    fetched = server.root / "work" / "class" / SMALL
    for _ in range(100):  # a page appears before all of it is written
        if any("Points 1 and 4." in page.read_text() for page in fetched.rglob("*.html")):
            return
        lab.wait_for_timeout(100)
    pytest.fail("no fetched page holds the comments")
