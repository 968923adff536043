"""What comes back to students, and what the person who marks is shown: the report, and nothing that can do harm."""

from __future__ import annotations

import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import markdown2html
from nbformat import NotebookNode, v4
from nbgrader.server_extensions.formgrader import handlers
from traitlets.config import Config

from autograder import chapters
from autograder.classroom.grade import grade
from autograder.classroom.pipeline import without_folders
from autograder.tests.classes import (
    PNG,
    REPOSITORY,
    SMALL,
    TIER,
    Active,
    cell,
    changed,
    gradebook_of,
    graded_copy,
    hand_in,
    nbgrader,
    registered,
    released_notebook,
    small_source,
)

QUESTION = "when_to_trust_a_number"
RIGHT = """import numpy as np
def median_and_iqr(samples):
    if not samples:
        raise ValueError("no samples")
    q1, middle, q3 = np.quantile(samples, [0.25, 0.5, 0.75])
    return middle, q3 - q1"""
WRONG = RIGHT.replace("return middle,", "return np.mean(samples),")
RAISING = """def helper(samples):
    from numpy import no_such_thing
def median_and_iqr(samples):
    return helper(samples)"""
SCRIPT = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>"
HOSTILE = f"""class Bad(Exception): pass
Bad.__name__ = {SCRIPT!r}
def median_and_iqr(samples):
    if len(samples) % 2:
        raise Bad({SCRIPT!r} + chr(27) + "]8;;javascript:alert(1)" + chr(7) + "[x](javascript:alert(1))")
    return {{{SCRIPT!r}: 1}}"""
ANSWER = "Mine, with ![a figure](attachment:f.png): decode is **bound** by `a < b`, $x<y$."
ATTACK = f"""{SCRIPT}

[x](javascript:alert(1)) <svg onload=alert(1)>

`{SCRIPT}`

![f](attachment:f.png)"""


def written(notebook: NotebookNode, text: str) -> NotebookNode:
    made = changed(notebook, QUESTION, source=text)
    cell(made, QUESTION).attachments = {"f.png": {"image/png": PNG, "text/html": SCRIPT}}
    return made


def submissions(released: NotebookNode) -> dict[str, NotebookNode | str]:
    key = dict(chapters.find("SPOT_THE_MISTAKE").key)

    def answers(median: str, quiz: dict, text: str) -> NotebookNode:
        made = written(changed(released, "median_and_iqr_solution", source=median), text)
        cell(made, "SPOT_THE_MISTAKE_solution").source = f"SPOT_THE_MISTAKE = {quiz}"
        return made

    one_value = dict.fromkeys(key, "one side always goes first")
    assert not set(one_value.values()) & set(key.values())
    hostile = answers(HOSTILE, one_value | {"A": SCRIPT}, ATTACK)
    hostile.cells[2].outputs = [
        v4.new_output("display_data", {"text/html": SCRIPT, "image/png": PNG, "text/plain": SCRIPT}),
        v4.new_output("stream", name="stderr", text=SCRIPT),
        v4.new_output("error", ename=SCRIPT, evalue=SCRIPT, traceback=[SCRIPT]),
    ]
    hostile.cells[2].metadata = {"tags": [SCRIPT], "name": SCRIPT, "jupyter": {"source_hidden": True}}
    hostile.metadata.title = SCRIPT
    hostile.cells += [
        v4.new_markdown_cell(
            ATTACK, id="submitted-when_to_trust_a_number", metadata={"autograder": {"scheme": QUESTION}}
        ),
        v4.new_raw_cell(SCRIPT, id="raw", metadata={"format": "text/html"}),
        v4.new_markdown_cell(ATTACK, id="scheme-when_to_trust_a_number", attachments={SCRIPT: {"image/png": PNG}}),
    ]
    pictured = answers(RIGHT, key, ANSWER)
    pictured.cells[2].outputs = [v4.new_output("display_data", {"image/png": PNG, "text/plain": "a figure"})]
    return {
        "hostile": hostile,
        "raising": answers(RAISING, one_value, ANSWER),
        "solved": pictured,
        "torn": nbformat.writes(pictured)[:2000],
        "wrong": answers(WRONG, one_value, ANSWER),
    }


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """A graded class, a written answer of which a person has marked, and its feedback."""
    root = registered(tmp_path_factory.mktemp("feedback"), SMALL, small_source())
    for student, notebook in submissions(released_notebook(root)).items():
        hand_in(root, student, notebook)
    grade(SMALL, root=root, tier=TIER)
    with gradebook_of(root) as gradebook:
        gradebook.find_grade(QUESTION, SMALL, SMALL, "solved").manual_score = 3
        gradebook.find_comment(QUESTION, SMALL, SMALL, "solved").manual_comment = "Points 1, 2 and 4."
        gradebook.db.commit()
    nbgrader(root, f"generate_feedback {SMALL}")
    return root


def feedback(root: Path, student: str) -> str:
    return (root / "feedback" / student / SMALL / f"{SMALL}.html").read_text(encoding="utf-8")


def formgrader(root: Path, student: str) -> str:
    """The page on which a person marks, made as nbgrader's formgrader makes it."""
    config = Config()
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    resources = {"student": student, "base_url": "", "index": 0, "total": 1, "notebook_path": f"autograded/{student}"}
    path = root / "autograded" / student / SMALL / f"{SMALL}.ipynb"
    return HTMLExporter(config=config).from_filename(str(path), resources=resources)[0]


class Visible(HTMLParser):
    """The text of a page as it is read."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._hidden += tag in ("script", "style", "title")

    def handle_endtag(self, tag):
        self._hidden -= tag in ("script", "style", "title")

    def handle_data(self, data):
        if not self._hidden:
            self.parts.append(data)


def visible(page: str) -> str:
    return " ".join("".join(Visible(page).parts).split())


STUDENTS = ("hostile", "raising", "solved", "torn", "wrong")
REPORTS = {
    "hostile": ["median_and_iqr 0 of 3", "</pre><script>alert(1)</script>"],
    "raising": [
        "median_and_iqr 0 of 3",
        "cannot import name 'no_such_thing'",
        "in helper: from numpy import no_such_thing",
    ],
    "solved": ["median_and_iqr 3 of 3", "SPOT_THE_MISTAKE 2 of 2", "6 of 6 right"],
    "torn": ["median_and_iqr 0 of 3", "for a person to look at", "only half written"],
    "wrong": ["median_and_iqr 2 of 3", "SPOT_THE_MISTAKE 0 of 2", "0 of 6 right"],
}


@pytest.mark.parametrize("student", STUDENTS)
def test_feedback_shows_the_report_and_the_tier_that_judged(course, student):
    text = visible(feedback(course, student))
    for part in REPORTS[student]:
        assert part in text
    assert f"judged at the {TIER} tier" in text


@pytest.mark.parametrize("student", STUDENTS)
def test_feedback_shows_no_solution_and_no_key(course, student):
    page = feedback(course, student)
    assert "SOLUTION" not in page.replace("_solution", "")
    assert "THE MODEL ANSWER" not in page
    if student != "solved":
        assert not [value for value in chapters.find("SPOT_THE_MISTAKE").key.values() if value in page]


@pytest.mark.parametrize("student", STUDENTS)
def test_feedback_shows_the_five_points_of_a_mark_scheme_and_neither_sentences_nor_samples(course, student):
    text, scheme = visible(feedback(course, student)), chapters.find(QUESTION)

    def shows(markdown: str) -> bool:
        return visible(markdown2html(markdown)) in text

    assert all(shows(point.point) for point in scheme.points)
    assert not any(shows(point.earns) or shows(point.does_not) for point in scheme.points)
    assert not any(shows(sample.why) or sample.text[:40] in text for sample in scheme.samples)


def test_feedback_shows_a_persons_marks_and_words(course):
    text = visible(feedback(course, "solved"))
    assert "Score: 8.0 / 10.0" in text
    assert "Score: 3.0 / 5.0" in text
    assert "Points 1, 2 and 4." in text


@pytest.mark.parametrize("student", STUDENTS)
def test_feedback_shows_no_path_of_this_machine_and_no_frame_of_ours(course, student):
    text = visible(feedback(course, student))
    places = {str(course), str(REPOSITORY), sys.prefix, sys.base_prefix, str(Path.home()), "site-packages"}
    places |= {str(Path(place).resolve()) for place in places if place.startswith("/")}
    assert not [place for place in places if place in text]
    assert not [ours for ours in ("Traceback", "judging.py", "bench.py", "pipeline.py", "<run>") if ours in text]


def test_a_path_in_a_message_is_cut_to_its_last_part():
    cut = without_folders(
        "from 'torch' (/opt/a b/lib/torch/__init__.py), '/home/x/y.txt', 1/2/3, and/or, https://a.org/b/c"
    )
    assert cut == "from 'torch' (.../a b/lib/torch/__init__.py), '.../y.txt', 1/2/3, and/or, https://a.org/b/c"


@pytest.mark.parametrize("page", [feedback, formgrader])
def test_pictures_and_written_answers_are_shown_as_submitted(course, page):
    text = visible(page(course, "solved"))
    before, answer, _ = text.partition("decode is bound by a <")
    assert answer and "as submitted:" in before[before.rindex("SPOT_THE_MISTAKE") :]
    assert page(course, "solved").count(f"data:image/png;base64,{PNG}") == 2
    assert 'alt="a figure"' in page(course, "solved")
    assert "as submitted: a figure" in text or "as submitted:" in before[: before.index("median_and_iqr 3 of 3")]


def test_an_answer_is_between_its_label_and_its_mark_scheme(course):
    for student in ("solved", "hostile"):
        shown = graded_copy(course, student)
        nbformat.validate(shown)
        ids = [one.id for one in shown.cells]
        assert len(ids) == len(set(ids))
        place = shown.cells.index(cell(shown, QUESTION))
        above, below = shown.cells[place - 1], shown.cells[place + 1]
        assert above.source == "as submitted:"
        assert below.source.startswith(f"**Mark scheme of `{QUESTION}`")
        assert not above.metadata.editable and not below.metadata.editable


@pytest.mark.cheats
@pytest.mark.parametrize("page", [feedback, formgrader])
def test_nothing_a_student_wrote_can_do_anything(course, page):
    def active(student: str) -> list[str]:
        return [found for found in Active(page(course, student)).found if found != "img"]

    assert active("hostile") == active("wrong")
    assert "onerror" not in page(course, "hostile").replace("onerror=alert(1)&gt;", "").replace(
        "onerror=alert(1)&amp;gt;", ""
    )


@pytest.mark.cheats
def test_a_name_that_a_page_would_take_for_html_is_refused_and_the_others_are_graded(course, tmp_path):
    root = Path(shutil.copytree(course, tmp_path / "course", ignore=shutil.ignore_patterns("submitted", "autograded")))
    mallory = 'mallory"><img src=x onerror=alert(1)>'
    released = released_notebook(root)
    hand_in(root, mallory, v4.new_notebook())
    hand_in(root, "next", changed(released, QUESTION, source="mine"))
    said = nbgrader(root, f"autograde {SMALL} --Judge.tier={TIER}", status=1)
    assert f"{mallory!r} is no name for a student" in said
    summary = grade(SMALL, root=root, tier=TIER)
    assert [(row.student, row.outcome) for row in summary.students] == [(mallory, "failed"), ("next", "graded")]
    assert f"{mallory!r} is no name for a student" in summary.students[0].reasons[0]
    assert [path.name for path in (root / "autograded").iterdir()] == ["next"]
