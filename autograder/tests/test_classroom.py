"""A class through nbgrader: what is released, what survives of a submission, and who gets which marks."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import nbformat
import pytest
from nbconvert.filters import markdown2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode, v4
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import compute_checksum, determine_grade

from autograder import chapters
from autograder.classroom import pipeline, submission, verdicts
from autograder.classroom.grade import GradeError, grade, settings
from autograder.course import release
from autograder.judge import NotebookError, Report, Verdict, sandbox
from autograder.tests.classes import (
    PNG,
    REPOSITORY,
    RESTORED,
    SMALL,
    TIER,
    Active,
    cell,
    changed,
    gradebook_of,
    graded_copy,
    hand_in,
    make_course,
    nbgrader,
    nbgrader_cell,
    registered,
    released_notebook,
    small_source,
)

WHOLE = "01_prefill_and_decode"  # the real one


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """The small course, entered into its gradebook, with its release."""
    return registered(tmp_path_factory.mktemp("small"), SMALL, small_source())


@pytest.fixture(scope="module")
def recorded(small) -> dict[str, submission.Recorded]:
    with Gradebook(f"sqlite:///{small}/gradebook.db") as gradebook:
        return submission.recorded_cells(gradebook, SMALL, SMALL)


@pytest.fixture
def released(small) -> NotebookNode:
    return released_notebook(small)


@pytest.fixture
def course(small, tmp_path) -> Path:
    """The small course for one test alone."""
    return Path(shutil.copytree(small, tmp_path / "course"))


@pytest.fixture
def lenient_judge(monkeypatch):
    """A judge that believes any answer with the word RIGHT in it, and counts how often it is asked."""
    asked = []

    def judge_notebook(cells, chapter, *, tier, **_):
        asked.append(chapter.slug)
        code = "\n".join(cell.source for cell in cells)
        made = [
            Verdict(e.name, e.points if f"RIGHT {e.name}" in code else 0.0, e.points, "full", tier=tier)
            for e in chapter.exercises
        ]
        return Report(chapter.slug, tier, made)

    monkeypatch.setattr(verdicts, "judge_notebook", judge_notebook)
    return asked


# release


def test_a_release_holds_no_solution(released):
    text = nbformat.writes(released)
    assert "SOLUTION" not in text
    assert "THE MODEL ANSWER" not in text
    assert not any(value in text for value in chapters.find("SPOT_THE_MISTAKE").key.values())
    assert "raise NotImplementedError()" in cell(released, "median_and_iqr_solution").source
    assert cell(released, "when_to_trust_a_number").source == "YOUR ANSWER HERE"


def test_a_released_quiz_is_its_dict_of_none_and_nothing_else(released):
    key = chapters.find("SPOT_THE_MISTAKE").key
    assert cell(released, "SPOT_THE_MISTAKE_solution").source == f"SPOT_THE_MISTAKE = {dict.fromkeys(key)}"


def test_releases_are_the_same_bytes_every_time_and_leave_the_gradebook_alone(course):
    path = course / "release" / SMALL / f"{SMALL}.ipynb"
    before = path.read_bytes(), (course / "gradebook.db").read_bytes()
    path.unlink()
    assert release.generate([], course) == [path]
    assert before == (path.read_bytes(), (course / "gradebook.db").read_bytes())
    assert release.differences(course) == []


def test_differences_name_what_does_not_come_from_source(course):
    path = course / "release" / SMALL / f"{SMALL}.ipynb"
    path.write_text(path.read_text().replace("small", "large"))
    (course / "release" / "notes.txt").touch()
    assert release.differences(course) == [
        "release/notes.txt does not come from source/",
        f"release/{SMALL}/{SMALL}.ipynb is not what source/ generates",
    ]
    shutil.rmtree(course / "release")
    assert release.differences(course) == [f"release/{SMALL}/{SMALL}.ipynb is missing"]


def test_a_source_that_cannot_be_released_gives_a_sentence_and_keeps_the_old_release(course):
    source = course / "source" / SMALL / f"{SMALL}.ipynb"
    source.write_text(source.read_text().replace("### END SOLUTION", "### THE END"))
    with pytest.raises(release.NbgraderError, match="no end solution statement found"):
        release.generate([SMALL], course)
    assert (course / "release" / SMALL / f"{SMALL}.ipynb").exists()
    with pytest.raises(release.NbgraderError, match="source/ has no notebook for 42_nothing; it has 00_measure"):
        release.generate(["42_nothing"], course)


# reading and restoring


@pytest.mark.faults
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "w.ipynb is empty"),
        (b"PK\x03\x04\xff\xfe", "w.ipynb is not a notebook"),
        (b'{"cells": [{"cell_type": "co', "half written"),
        (b"[1, 2]", "no list of cells"),
        (b'{"cells": ' + b"[" * 50_000, "not JSON"),
    ],
)
def test_a_file_that_is_no_notebook_is_refused_in_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "w.ipynb"
    path.write_bytes(content)
    with pytest.raises(NotebookError, match=sentence) as refusal:
        submission.read(path)
    assert str(tmp_path) not in str(refusal.value)


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "w.ipynb").symlink_to(REPOSITORY / "source" / WHOLE / f"{WHOLE}.ipynb")
    with pytest.raises(NotebookError, match="is a link or a folder"):
        submission.read(tmp_path / "w.ipynb")


@pytest.mark.faults
def test_malformed_cells_become_a_valid_notebook():
    rubbish = {
        "cells": [
            None,
            {},
            {"cell_type": "code", "source": 7, "outputs": "none", "metadata": [1], "id": "<b>"},
            {"cell_type": "raw", "source": ["a\ud800", 3, "b"], "metadata": {"nbgrader": True}, "id": "same"},
            {"cell_type": "code", "source": "x", "id": "same", "execution_count": True, "outputs": [0, {}]},
        ],
        "metadata": {"language": 3, "kernelspec": [], "widgets": {"state": "</script>"}},
        "nbformat": "four",
    }
    made = submission.clean(rubbish)
    nbformat.validate(made)
    assert [c.source for c in made.cells] == ["", "", "a?b", "x"]
    assert made.metadata == {}


@pytest.mark.cheats
def test_outputs_keep_text_and_pictures_only():
    outputs = [
        {"output_type": "display_data", "data": {"text/html": "<script>", "text/plain": ["a", "b"]}, "metadata": {}},
        {"output_type": "execute_result", "data": {"image/png": PNG, "application/javascript": "x"}},
        {"output_type": "display_data", "data": {"image/png": '"><script>', "image/svg+xml": "<svg onload=x>"}},
        {"output_type": "stream", "name": "stderr", "text": "y" * 10**6},
        {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["one", "two"]},
    ]
    kept = submission.clean({"cells": [{"cell_type": "code", "source": "", "outputs": outputs}]}).cells[0].outputs
    assert [o.get("text", "")[:7] for o in kept] == ["ab", "", "yyyyyyy", "one\ntwo"]
    assert kept[1].data == {"image/png": PNG, "text/plain": ""}
    assert kept[1].metadata == {"image/png": {"alt": "a figure without a description"}}
    assert len(kept[2].text) == submission.MAX_TEXT
    assert {o.get("name", "stdout") for o in kept} == {"stdout"}


@pytest.mark.faults
@pytest.mark.parametrize("how", RESTORED)
def test_a_test_cell_is_as_released_whatever_became_of_it(how, released, recorded):
    expected = dict(recorded["median_and_iqr"].nbgrader)
    made = submission.restored(submission.clean(RESTORED[how](released)), recorded)
    nbformat.validate(made)
    found = [c for c in made.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "median_and_iqr"]
    assert len(found) == 1
    assert found[0].source == 'check("median_and_iqr")'
    assert found[0].cell_type == "code"
    assert found[0].metadata == {"nbgrader": expected, "deletable": False, "editable": False}
    assert compute_checksum(found[0]) == expected["checksum"]


@pytest.mark.faults
def test_the_last_copy_of_an_answer_counts_and_the_first_is_kept_to_read(released, recorded):
    first = changed(released, "when_to_trust_a_number", source="my first thoughts")
    second = changed(first, "when_to_trust_a_number", source="my last thoughts")
    first.cells.append(cell(second, "when_to_trust_a_number"))
    made = submission.restored(submission.clean(first), recorded)
    assert cell(made, "when_to_trust_a_number").source == "my last thoughts"
    assert "my first thoughts" in [c.source for c in made.cells]


@pytest.mark.faults
def test_points_cannot_be_invented(released, recorded):
    extra = nbgrader_cell("code", "100", "a_gift", grade=True, locked=True, points=100)
    released.cells.append(extra)
    made = submission.restored(submission.clean(released), recorded)
    assert made.cells[-1].source == "100"
    assert made.cells[-1].metadata == {}


@pytest.mark.faults
def test_a_lost_answer_cell_is_not_put_back_over_an_answer_that_stands_elsewhere(released, recorded):
    answer = cell(released, "median_and_iqr_solution")
    answer.source, answer.metadata = "def median_and_iqr(samples): ...", NotebookNode()
    made = submission.restored(submission.clean(released), recorded)
    assert [c.source for c in made.cells if "def median_and_iqr" in c.source] == [answer.source]


def test_an_untouched_written_answer_is_still_recognised(released, recorded):
    made = submission.restored(submission.clean(released), recorded)
    assert determine_grade(cell(made, "when_to_trust_a_number")) == (0, 5.0)


@pytest.mark.cheats
@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a <img src=x onerror=alert(1) b",
        "<svg/onload=alert(1)>\n\n<iframe srcdoc='x'>",
        "[x](javascript:alert(1)) and ![y](javascript:alert(1))",
        "[x](<javascript:alert(1)>)\n[x](< javascript:alert(1)>)",
        "[x](\n  JaVaScRiPt:alert(1))",
        "[x](java&#115;cript&colon;alert(1)) [y](&#x6a;avascript:alert(1))",
        "[x](javascript\\:alert(1)) [y](\\javascript:alert(1))",
        "[x][a]\n\n[a]: javascript:alert(1)\n",
        "[x][a]\n\n[a]:\n   <javascript:alert(1)>\n",
        "[x](data:text/html;base64,PHNjcmlwdD4=) [x](vbscript:x)",
        "<javascript:alert(1)>",
        "```\n</code><script>alert(1)</script>\n```",
        "`<script>` <!-- <script> --> <?php ?> <![CDATA[<script>]]>",
        "# <script>alert(1)</script> {onclick=alert(1)}",
        "| a |\n|---|\n| <script>alert(1)</script> |",
        "$<script>alert(1)</script>$ $$</math><img src=x onerror=alert(1)>$$",
    ],
)
def test_no_markdown_of_a_student_can_do_anything(text):
    shown = Active(markdown2html(submission.harmless(text)))
    assert [found for found in shown.found if found != "img" or "![" not in text] == []


@pytest.mark.faults
@pytest.mark.parametrize(
    "text",
    [
        "a lost picture ![x](attachment:lost.png) and **more**",
        "one beside it ![x](attachment:f.png2)",
        "![x][f]\n\n[f]: attachment:lost.png",
        "![x](att&#97;chment:lost.png)",
        "![x](attachment\\:lost.png)",
        "\\begin{a}" * 100_000,
        "[" * 100_000,
        ">" * 100_000,
    ],
    ids=lambda text: text[:30],
)
def test_whatever_a_student_writes_a_page_can_be_made_of_it(text):
    attachments = {"f.png": {"image/png": PNG}}
    shown = submission.readable(text, attachments)
    assert len(shown) < 4 * submission.MAX_TEXT
    renderer = IPythonRenderer(escape=False, attachments=attachments)
    assert MarkdownWithMath(renderer=renderer).render(shown)


def test_a_picture_is_found_under_the_name_its_link_writes():
    given = {"cell_type": "markdown", "source": "![x](attachment:my%20figure.png)"}
    given["attachments"] = {"my figure.png": {"image/png": PNG}}
    (made,) = submission.clean({"cells": [given]}).cells
    assert submission.readable(made.source, made.attachments) == made.source
    assert made.attachments["my%20figure.png"] == {"image/png": PNG}


def test_honest_markdown_looks_the_same():
    text = "Decode is **memory-bound**: `a < b`, $x<y$.\n\n> 3 < 5\n\n[see](https://example.org/a:b) [up](#part)"
    made = markdown2html(submission.harmless(text)).replace(submission.JOINER, "")
    assert made == markdown2html(text)


# judging, saving and flagging


@pytest.mark.faults
@pytest.mark.parametrize(
    ("given", "expected"), [(2.5, 2.5), (0, 0), (99, 3), (-1, 0), (float("nan"), 0), (float("inf"), 0)]
)
def test_a_test_cell_holds_one_finite_number_between_nothing_and_its_maximum(released, given, expected):
    test = cell(released, "median_and_iqr")
    pipeline.write_outputs(test, Verdict("median_and_iqr", given, 3.0, "full"))
    assert determine_grade(test) == (expected, 3.0)
    assert [o.output_type for o in test.outputs] == ["stream", "execute_result"]
    assert test.outputs[0].name == "stdout"


@pytest.mark.faults
def test_everybody_gets_marks_or_a_reason(course, released, lenient_judge):
    right = changed(released, "median_and_iqr_solution", source="# RIGHT median_and_iqr")
    whole = nbformat.writes(right)
    hand_in(course, "copied", RESTORED["copied"](right), SMALL)
    hand_in(course, "edited", RESTORED["edited"](right), SMALL)
    hand_in(course, "empty_file", "", SMALL)
    hand_in(course, "empty_notebook", v4.new_notebook(), SMALL)
    hand_in(course, "half", whole[: len(whole) // 2], SMALL)
    hand_in(course, "link", None, SMALL).symlink_to(course / "source" / SMALL / f"{SMALL}.ipynb")
    hand_in(course, "nothing", None, SMALL)
    hand_in(course, "renamed", right, SMALL, "my homework (1)")
    one = hand_in(course, "two_others", right, SMALL, "one")
    shutil.copy(one, one.with_name("two.ipynb"))
    hand_in(course, "untouched", released, SMALL)
    summary = grade(SMALL, root=course, tier=TIER)
    assert {g.student: (g.points, g.outcome) for g in summary.students} == {
        "copied": (3.0, "graded"),
        "edited": (3.0, "graded"),
        "empty_file": (0.0, "review"),
        "empty_notebook": (0.0, "graded"),
        "half": (0.0, "review"),
        "link": (0.0, "review"),
        "nothing": (0.0, "review"),
        "renamed": (3.0, "graded"),
        "two_others": (0.0, "review"),
        "untouched": (0.0, "graded"),
    }
    reasons = {g.student: g.reasons for g in summary.students if g.reasons}
    assert reasons["nothing"] == ("no notebook was handed in",)
    assert reasons["two_others"] == (f"none of the 2 notebooks handed in is called {SMALL}.ipynb",)
    assert "is empty" in reasons["empty_file"][0]
    assert summary.status == 1
    with gradebook_of(course) as gradebook:
        for student in ("half", "nothing"):
            grades = gradebook.find_submission_notebook(SMALL, SMALL, student).grades
            assert all(g.needs_manual_grade and g.auto_score == 0 for g in grades)
    shown = graded_copy(course, "nothing")
    assert "no notebook was handed in" in cell(shown, "median_and_iqr").outputs[0].text
    assert json.dumps(summary.to_json())


def test_written_answers_arrive_with_their_mark_schemes_and_pictures_as_submitted(course, released, lenient_judge):
    mine = changed(released, "when_to_trust_a_number", source="Mine, <b onclick=x>, with ![a figure](attachment:f.png)")
    cell(mine, "when_to_trust_a_number").attachments = {"f.png": {"image/png": PNG, "text/html": "<script>"}}
    mine.cells[2].outputs = [v4.new_output("display_data", {"image/png": PNG})]
    hand_in(course, "ada", mine, SMALL)
    (graded,) = grade(SMALL, root=course, tier=TIER).students
    assert graded.unmarked == ("when_to_trust_a_number",)
    shown = graded_copy(course, "ada")
    place = shown.cells.index(cell(shown, "when_to_trust_a_number"))
    assert shown.cells[place].attachments == {"f.png": {"image/png": PNG}}
    scheme, below = chapters.find("when_to_trust_a_number"), shown.cells[place + 1]
    assert below.metadata.editable is False
    assert all(p.point in below.source and p.earns in below.source for p in scheme.points)
    assert all(sample.why in below.source for sample in scheme.samples)
    assert shown.cells[2].outputs[0].text == "as submitted:\n"
    assert shown.cells[2].outputs[1].data["image/png"] == PNG


def test_what_the_judge_cannot_decide_is_flagged_with_the_reason_where_a_person_sees_it(course, released, monkeypatch):
    def judge_notebook(cells, chapter, *, tier, **_):
        doubtful = Verdict("median_and_iqr", 2.0, 3.0, "review", review="faster than <b>light</b>")
        return Report(chapter.slug, tier, [doubtful, Verdict("SPOT_THE_MISTAKE", 2.0, 2.0, "full")])

    monkeypatch.setattr(verdicts, "judge_notebook", judge_notebook)
    hand_in(course, "ada", released, SMALL)
    summary = grade(SMALL, root=course, tier=TIER)
    assert (summary.students[0].points, summary.status) == (4.0, 1)
    with gradebook_of(course) as gradebook:
        where = (SMALL, SMALL, "ada")
        assert gradebook.find_grade("median_and_iqr", *where).needs_manual_grade
        assert not gradebook.find_grade("SPOT_THE_MISTAKE", *where).needs_manual_grade
        comment = gradebook.find_comment("median_and_iqr_solution", *where).comment
    assert comment.replace(submission.JOINER, "|") == "Needs a person: faster than <|b>light<|/b>"


def test_an_unchanged_submission_is_judged_once(course, released, lenient_judge):
    path = hand_in(course, "ada", released, SMALL)
    first = grade(SMALL, root=course, tier=TIER)
    assert grade(SMALL, root=course, tier=TIER) == first
    assert len(lenient_judge) == 1
    grade(SMALL, root=course, tier=TIER, again=True)
    assert len(lenient_judge) == 2
    path.write_text(path.read_text().replace("[1, 2, 3]", "[1, 2]"))
    grade(SMALL, root=course, tier=TIER)
    assert len(lenient_judge) == 3


def test_what_a_person_has_marked_stays_marked_until_it_changes(course, released, lenient_judge):
    path = hand_in(course, "ada", released, SMALL)
    question, where = "when_to_trust_a_number", (SMALL, SMALL, "ada")
    path.write_text(path.read_text().replace("YOUR ANSWER HERE", "In pairs."))
    assert grade(SMALL, root=course, tier=TIER).students[0].unmarked == (question,)
    with gradebook_of(course) as gradebook:
        marked = gradebook.find_grade(question, *where)
        marked.manual_score, marked.needs_manual_grade = 3.0, False
        gradebook.db.commit()
    for again in (False, True):
        assert grade(SMALL, root=course, tier=TIER, again=again).students[0].unmarked == ()
    path.write_text(path.read_text().replace("In pairs.", "In pairs, because machines drift."))
    assert grade(SMALL, root=course, tier=TIER).students[0].unmarked == (question,)
    with gradebook_of(course) as gradebook:
        assert gradebook.find_grade(question, *where).score == 3.0, "the old mark is proposed"


OTHER_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAYAAABytg0kAAAAFElEQVR4nGP8z8Dwn4GBgYGJAQoAHxcCAk+Uzt4AAAAASUVORK5CYII="


@pytest.mark.parametrize("where_it_stands", ["in a picture", "in another cell"])
def test_a_mark_by_hand_is_asked_for_again_when_what_was_marked_stands_elsewhere(
    course, released, lenient_judge, where_it_stands
):
    question = "when_to_trust_a_number"
    drawn = changed(released, question, source="![on paper](attachment:f.png), and see the end.")
    drawn.cells.append(v4.new_markdown_cell("In pairs.", id="the-end"))
    for paper, end in ((PNG, "In pairs."), (OTHER_PNG, "In pairs.") if "pic" in where_it_stands else (PNG, "Once.")):
        cell(drawn, question).attachments = {"f.png": {"image/png": paper}}
        drawn.cells[-1].source = end
        shutil.rmtree(course / "submitted", ignore_errors=True)
        hand_in(course, "ada", drawn, SMALL)
        assert grade(SMALL, root=course, tier=TIER).students[0].unmarked == (question,)
        with gradebook_of(course) as gradebook:
            marked = gradebook.find_grade(question, SMALL, SMALL, "ada")
            marked.manual_score, marked.needs_manual_grade = 1.0, False
            gradebook.db.commit()
        assert grade(SMALL, root=course, tier=TIER).students[0].unmarked == ()


@pytest.mark.faults
def test_grading_can_be_interrupted_and_taken_up_again(course, released, lenient_judge, monkeypatch):
    judge = verdicts.judge_notebook

    def interrupted(cells, chapter, **settings):
        if lenient_judge:
            raise KeyboardInterrupt
        return judge(cells, chapter, **settings)

    hand_in(course, "ada", changed(released, "median_and_iqr_solution", source="# RIGHT median_and_iqr"), SMALL)
    hand_in(course, "bob", changed(released, "median_and_iqr_solution", source="# WRONG"), SMALL)
    monkeypatch.setattr(verdicts, "judge_notebook", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grade(SMALL, root=course, tier=TIER)
    monkeypatch.setattr(verdicts, "judge_notebook", judge)
    summary = grade(SMALL, root=course, tier=TIER)
    assert [(g.student, g.points) for g in summary.students] == [("ada", 3.0), ("bob", 0.0)]
    assert len(lenient_judge) == 2


@pytest.mark.faults
def test_a_late_penalty_follows_the_due_date(course, released, lenient_judge):
    right = changed(released, "median_and_iqr_solution", source="# RIGHT median_and_iqr")
    (hand_in(course, "ada", right, SMALL).parent / "timestamp.txt").write_text("2026-05-02 12:00:00 UTC")
    with open(course / "nbgrader_config.py", "a") as config:
        config.write("c.LateSubmissionPlugin.penalty_method = 'zero'\n")
    for due, penalty in (("2026-05-01 12:00:00", 3.0), ("2026-05-03 12:00:00", 0.0)):
        with gradebook_of(course) as gradebook:
            gradebook.update_or_create_assignment(SMALL, duedate=due)
        (ada,) = grade(SMALL, root=course, tier=TIER).students
        assert (ada.late_penalty, ada.late_seconds) == (penalty, 86400.0 if penalty else 0.0)


@pytest.mark.faults
def test_one_student_whose_grading_fails_does_not_stop_the_others(course, released, lenient_judge, monkeypatch):
    judge = verdicts.judge_notebook

    def broken(cells, chapter, **settings):
        if any("BREAK" in cell.source for cell in cells):
            raise OSError("No space left on device")
        return judge(cells, chapter, **settings)

    monkeypatch.setattr(verdicts, "judge_notebook", broken)
    hand_in(course, "ada", changed(released, "median_and_iqr_solution", source="# BREAK"), SMALL)
    hand_in(course, "bob", changed(released, "median_and_iqr_solution", source="# RIGHT median_and_iqr"), SMALL)
    summary = grade(SMALL, root=course, tier=TIER)
    assert [(g.outcome, g.points) for g in summary.students] == [("failed", 0.0), ("graded", 3.0)]
    assert summary.students[0].reasons == ("No space left on device",)
    assert summary.status == 2


def test_what_cannot_be_graded_at_all_is_one_sentence(course, released, monkeypatch):
    with pytest.raises(GradeError, match="There is no submission for 00_measure_honestly"):
        grade(SMALL, root=course, tier=TIER)
    hand_in(course, "ada", released, SMALL)
    with pytest.raises(GradeError, match="no submission of bob"):
        grade(SMALL, root=course, tier=TIER, student="bob")
    with monkeypatch.context() as machine:
        machine.setattr(sandbox, "why_not", lambda: "bubblewrap is not installed")
        with pytest.raises(GradeError, match="Nothing was graded: the sandbox tier cannot be used here, for bubblewr"):
            grade(SMALL, root=course)
    database = (course / "gradebook.db").read_bytes()
    (course / "gradebook.db").write_text("not a database, however long one reads it" * 100)
    with pytest.raises(GradeError, match=r"The gradebook cannot be used: .*not a database"):
        grade(SMALL, root=course, tier=TIER)
    (course / "gradebook.db").write_bytes(database)
    hand_in(course, "ada", released, "42_nothing")
    with pytest.raises(GradeError, match="does not know 42_nothing, and it cannot be entered"):
        grade("42_nothing", root=course, tier=TIER)
    assert not (course / "autograded").exists()


# nbgrader's own doors


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_the_formgraders_button_gives_the_judges_marks_or_the_refusal(course, released, lenient_judge, monkeypatch):
    hand_in(course, "ada", changed(released, "median_and_iqr_solution", source="# RIGHT median_and_iqr"), SMALL)
    config = settings(SMALL, course, tier=TIER, measure=None)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    assert api.autograde(SMALL, "ada")["success"]
    assert api.get_submission(SMALL, "ada")["code_score"] == 3.0
    monkeypatch.setattr(sandbox, "why_not", lambda: "bubblewrap is not installed")
    refused = NbGraderAPI(CourseDirectory(config=config), config=config).autograde(SMALL, "ada")
    assert not refused["success"]
    assert "Nothing was graded: the sandbox tier" in refused["log"]


@pytest.mark.faults
def test_without_the_package_nbgrader_grades_nothing(course, released, tmp_path):
    hand_in(course, "ada", released, SMALL)
    (tmp_path / "broken" / "autograder").mkdir(parents=True)
    (tmp_path / "broken" / "autograder" / "__init__.py").write_text("raise ImportError('half installed')")
    said = nbgrader(course, f"autograde {SMALL}", status=1, PYTHONPATH=str(tmp_path / "broken"))
    assert "nbgrader was stopped: the course's package cannot be imported (half installed)" in said
    assert "Traceback" not in said
    assert not (course / "autograded").exists()


def test_without_a_sandbox_nbgrader_refuses_before_it_touches_anything(course, released):
    hand_in(course, "ada", released, SMALL)
    said = nbgrader(course, f"autograde {SMALL}", status=1, PATH="/nowhere")
    assert "Nothing was graded: the sandbox tier cannot be used here, for bubblewrap is not installed" in said
    assert "Traceback" not in said
    assert not (course / "autograded").exists()


@pytest.mark.faults
def test_nbgrader_names_the_students_without_a_notebook_and_grades_the_others(course, released):
    hand_in(course, "ada", released, SMALL)
    hand_in(course, "nothing", None, SMALL)
    hand_in(course, "renamed", released, SMALL, "homework")
    hand_in(course, "zoe", "not JSON", SMALL)
    said = nbgrader(course, f"autograde {SMALL} --Judge.tier={TIER} --Judge.measure=False", status=1)
    for student in ("nothing", "renamed"):
        assert f"There was an error processing assignment '{SMALL}' for student '{student}'" in said
    assert "There is no notebook in" in said
    assert {path.name for path in (course / "autograded").iterdir()} == {"ada", "zoe"}


@pytest.fixture(scope="module")
def whole_class(tmp_path_factory) -> Path:
    """The real assignment, released and handed in by three students through nbgrader's own exchange."""
    root = tmp_path_factory.mktemp("class") / "course"
    source = nbformat.read(REPOSITORY / "source" / WHOLE / f"{WHOLE}.ipynb", 4)
    make_course(root, WHOLE, source)
    exchange = root.parent / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    places = f"--Exchange.root={exchange} --Exchange.cache={root.parent / 'cache'}"
    nbgrader(root, f"generate_assignment {WHOLE}")
    assert release.differences(root) == []
    nbgrader(root, f"release_assignment {WHOLE} {places}")
    nbgrader(root, f"fetch_assignment {WHOLE} {places}")
    fetched = root / "work" / "class" / WHOLE / f"{WHOLE}.ipynb"
    untouched = fetched.read_text()
    dying = changed(
        source,
        "latency_metrics_solution",
        source="import os\n\ndef latency_metrics(sent, token_times):\n    os._exit(0)",
    )
    for student, text in {
        "full": nbformat.writes(source),
        "untouched": untouched,
        "dying": nbformat.writes(dying),
    }.items():
        fetched.write_text(text)
        nbgrader(root, f"submit {WHOLE} {places} --student={student}")
    nbgrader(root, f"collect {WHOLE} {places}")
    return root


def expected_marks() -> dict[str, float]:
    """Speed is not measured here, so its points are not earned; written answers wait for a person."""
    most = sum(e.points - e.speed_points for e in chapters.load(WHOLE).exercises)
    return {"full": most, "untouched": 0.0, "dying": most - chapters.find("latency_metrics").points}


def test_a_class_gets_its_marks_by_nbgraders_own_commands_and_by_grade(whole_class):
    root, expected = whole_class, expected_marks()
    nbgrader(root, f"autograde {WHOLE} --Judge.tier={TIER} --Judge.measure=False")
    nbgrader(root, f"generate_feedback {WHOLE}")
    nbgrader(root, "export --to=marks.csv")
    rows = list(csv.DictReader(io.StringIO((root / "marks.csv").read_text())))
    assert {row["student_id"]: float(row["score"]) for row in rows} == expected
    page = (root / "feedback" / "dying" / WHOLE / f"{WHOLE}.html").read_text()
    assert "ended its own process" in page
    for scheme in chapters.load(WHOLE).written:
        assert scheme.points[0].point[:30] in page
        assert scheme.points[0].earns[:30] not in page
    shutil.rmtree(root / "autograded")
    (root / "gradebook.db").unlink()
    summary = grade(WHOLE, root=root, tier=TIER, measure=False)
    assert {g.student: g.points for g in summary.students} == expected
    assert summary.status == 0
