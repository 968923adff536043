"""What a teacher reads about a class: the summary in the terminal, and the page."""

from __future__ import annotations

import html
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from autograder import cli
from autograder.classroom import class_report, verdicts
from autograder.classroom.class_report import Row, class_rows, failed_rungs, histogram, page, speeds
from autograder.classroom.grade import Graded, GradeError, Pace, Summary, grade, why_nothing
from autograder.judge import Report, RungResult, Verdict
from autograder.tests import test_classroom
from autograder.tests.classes import TIER
from autograder.tests.test_classroom import SMALL, Active, changed, gradebook_of, hand_in
from autograder.tests.test_cli import autograder

small, course, released = test_classroom.small, test_classroom.course, test_classroom.released

MEASURED = "01_prefill_and_decode"
HOSTILE = "<script>alert(1)</script>[red]x[/y]\x1b[31m\u202e"


@pytest.fixture
def scripted_judge(monkeypatch):
    """A judge that says what a submission's first comment names."""

    def verdict(kind: str) -> Verdict:
        rungs = [
            RungResult("the median is right", kind == "good", 2.0, "" if kind == "good" else f"not 3.5: {HOSTILE}")
        ]
        if kind == "good":
            return Verdict("median_and_iqr", 3.0, 3.0, "full", rungs)
        if kind == "odd":
            return Verdict("median_and_iqr", 0.0, 3.0, "review", rungs, review=f"median_and_iqr: {HOSTILE}")
        if kind == "died":
            return Verdict("median_and_iqr", 0.0, 3.0, "died", rungs, note="your code did not come back: it crashed")
        return Verdict("median_and_iqr", 0.0, 3.0, "none", rungs)

    def judge_notebook(cells, chapter, *, tier, **_):
        (kind,) = {line[2:] for cell in cells for line in cell.source.splitlines() if line.startswith("# ")}
        quiz = Verdict("SPOT_THE_MISTAKE", 0.0, 2.0, "untouched", note="not answered yet")
        return Report(chapter.slug, tier, [verdict(kind), quiz])

    monkeypatch.setattr(verdicts, "judge_notebook", judge_notebook)


@pytest.fixture
def graded_course(course, released, scripted_judge) -> Path:
    """A course in which five have handed in and been graded, one of them with an odd name."""
    kinds = {"ada": "good", "bob": "bad", "eve": "odd", "mal": "died", "script&alert(1);\u202e": "good"}
    for student, kind in kinds.items():
        answer = changed(released, "median_and_iqr_solution", source=f"# {kind}")
        hand_in(course, student, changed(answer, "when_to_trust_a_number", source="My own words."), SMALL)
    hand_in(course, "zoe", "not JSON", SMALL)
    grade(SMALL, root=course, tier=TIER)
    return course


def words_of(text: str) -> str:
    """The page's text, with single spaces."""
    return " ".join(html.unescape(re.sub(r"<style>.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL)).split())


# the page


def test_the_page_says_who_needs_a_person_and_why(graded_course):
    path = class_report.write(SMALL, graded_course)
    assert path == graded_course / verdicts.FOLDER / f"{SMALL}.html"
    words = words_of(path.read_text())
    assert "6 handed in 6 graded" in words
    assert "2 need a person" in words and "5 written answers to mark" in words
    attention = words.partition("Who needs a person, and why")[2].partition("Each bar counts")[0]
    assert "eve median_and_iqr <script>alert(1)</script>[red]x[/y]" in attention
    assert "not a notebook, or was only half written" in attention
    assert "ada" not in attention and "mal" not in attention
    assert "median_and_iqr died: it crashed SPOT_THE_MISTAKE not answered" in words


def test_the_page_shows_marks_mistakes_and_outcomes(graded_course):
    words = words_of(class_report.write(SMALL, graded_course).read_text())
    assert "median_and_iqr: median 0 of 3. Points and how many have them: 0: 4, 3: 2." in words
    assert "2 full marks, 1 attempted, no marks, 1 code ended its process, 1 needs a person" in words
    assert "2 of 4 the median is right median_and_iqr not 3.5: <script>" in words, "who died failed no rung"


@pytest.mark.cheats
def test_nothing_a_student_wrote_can_do_anything_in_the_page(graded_course):
    text = class_report.write(SMALL, graded_course).read_text()
    active = [found for found in Active(text).found if found not in ("style", "svg")]
    assert active == []
    assert "<script" not in text.lower() and "\x1b" not in text and "\u202e" not in text
    assert "default-src 'none'" in text


class Outline(HTMLParser):
    """The headings, links to elsewhere, and pictures without words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings, self.elsewhere, self.pictures, self.described = [], [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.elsewhere += [value for name, value in attrs if name in ("src", "href", "action")]
        if attributes.get("role") == "img":
            self.pictures.append(attributes.get("aria-labelledby") or attributes.get("aria-label"))
        if tag == "title" and "id" in attributes:
            self.described.add(attributes["id"])


def test_the_page_stands_alone_and_can_be_read_without_seeing_it(graded_course):
    outline = Outline(class_report.write(SMALL, graded_course).read_text())
    assert outline.headings[0] == 1 and set(outline.headings[1:]) == {2}
    assert outline.elsewhere == []
    assert outline.pictures and all(picture in outline.described or " " in picture for picture in outline.pictures)


def test_a_flag_that_a_person_has_settled_is_gone_and_the_marks_are_theirs(graded_course):
    with gradebook_of(graded_course) as gradebook:
        settled = gradebook.find_grade("median_and_iqr", SMALL, SMALL, "eve")
        settled.manual_score, settled.needs_manual_grade = 1.0, False
        gradebook.db.commit()
    rows = {row.student: row for row in class_rows(SMALL, graded_course)}
    assert rows["eve"].flags == () and rows["eve"].points["median_and_iqr"] == 1.0
    assert len(rows["zoe"].reasons) == 1 and len(rows["zoe"].flags) == 3


def test_who_is_not_graded_yet_or_has_handed_in_again_is_named(graded_course, released):
    hand_in(graded_course, "new", released, SMALL)
    path = graded_course / "submitted" / "ada" / SMALL / f"{SMALL}.ipynb"
    path.write_text(path.read_text().replace("# good", "# bad"))
    states = {row.student: row.state for row in class_rows(SMALL, graded_course)}
    assert states["new"] == "not graded" and states["ada"] == "graded", "bob's verdict is of the same code"
    path.write_text(path.read_text().replace("# bad", "# other"))
    assert {row.student: row.state for row in class_rows(SMALL, graded_course)}["ada"] == "changed since"
    assert "ada handed in something else since" in words_of(class_report.write(SMALL, graded_course).read_text())


def test_without_marks_there_is_no_page_but_a_sentence(course, released):
    with pytest.raises(GradeError, match="There is no submission"):
        class_report.write(SMALL, course)
    hand_in(course, "ada", released, SMALL)
    with pytest.raises(GradeError, match="is graded yet: `autograder grade 00_measure_honestly` comes first"):
        class_report.write(SMALL, course)
    (course / "gradebook.db").unlink()
    with pytest.raises(GradeError, match="is graded yet"):
        class_report.write(SMALL, course)
    assert not (course / "gradebook.db").exists()


def test_the_command_prints_where_the_page_is(graded_course, tmp_path):
    done = autograder("report", "00", "--course", str(graded_course), "--out", str(tmp_path / "new" / "page.html"))
    assert done.returncode == 0 and done.stdout.strip() == str(tmp_path / "new" / "page.html")
    assert "Measure honestly" in (tmp_path / "new" / "page.html").read_text()
    shutil.rmtree(graded_course / "submitted")
    done = autograder("report", "00", cwd=graded_course)
    assert done.returncode == 2 and done.stderr.startswith("autograder: There is no submission")


# its figures


def test_a_histogram_counts_halves_where_there_are_any_and_stays_readable():
    assert histogram("quiz", [0, 0.5, 2], 2).bars == [("0", 1), ("0.5", 1), ("1", 0), ("1.5", 0), ("2", 1)]
    assert [label for label, _ in histogram("x", [1, 2], 3).bars] == ["0", "1", "2", "3"]
    whole = histogram("all", [0, 33.5, 100], 100)
    assert len(whole.bars) <= class_report.MOST_BARS and sum(count for _, count in whole.bars) == 3
    assert whole.bars[0] == ("0", 1) and whole.bars[-1] == ("100", 1)


def report_of(*made: Verdict) -> Report:
    return Report(MEASURED, "process", list(made))


def test_the_commonest_failed_rungs_come_first_with_what_most_were_told():
    def failing(name: str, *messages: str) -> Report:
        rungs = [RungResult(f"rung {i}", not message, 1.0, message) for i, message in enumerate(messages)]
        return report_of(Verdict(name, 0.0, 2.0, "none", rungs))

    judged = [
        failing("a", "you returned 3", ""),
        failing("a", "nothing", "as above"),
        failing("a", "you returned 4.5", "x"),
    ]
    first, second = failed_rungs(judged)
    assert (first.rung, first.count, first.answered, first.message) == ("rung 0", 3, 3, "you returned 3")
    assert (second.rung, second.count, second.message) == ("rung 1", 2, "x")


def measured(ratio: float | None) -> Report:
    speed = {"measurable": False}
    if ratio:
        speed = {"measurable": True, "ratio": ratio, "reference_ratio": 4.0, "half_bar": 1.5, "full_bar": 2.3}
    return report_of(Verdict("generate_timed", 8.0, 8.0, "full", speed=speed))


def test_measured_speeds_are_drawn_between_the_bars_that_decided():
    found = speeds("generate_timed", [measured(ratio) for ratio in (3.9, 1.0, 3.9, 8.0, None)])
    assert (found.ratios, found.unmeasured, found.reference) == ([1.0, 3.9, 3.9, 8.0], 1, 4.0)
    assert all(0 < position < 100 for position, *_ in (*found.dots, *found.ticks, *found.lines))
    assert found.dots[1][0] == found.dots[2][0] and found.dots[2][1] == found.dots[1][1] + 1, "equal ones are stacked"
    assert "from 1.00 to 8.00 times" in found.words
    assert speeds("generate_timed", [measured(None)]) is None
    rows = [
        Row(f"s{i}", "graded", {"generate_timed": 8.0}, report=measured(ratio)) for i, ratio in enumerate((2.0, None))
    ]
    words = words_of(page(MEASURED, rows))
    assert "Measured speed of generate_timed" in words and "For 1 student it could not be measured" in words


@pytest.mark.faults
def test_a_folder_that_nbgrader_cannot_name_fails_in_a_sentence(course, released, scripted_judge):
    hand_in(course, "ada [late]", changed(released, "median_and_iqr_solution", source="# good"), SMALL)
    (failed,) = grade(SMALL, root=course, tier="process").students
    assert failed.outcome == "failed"
    assert failed.reasons == ("nbgrader cannot grade the folder ada [late]: rename it without *, ? and [",)


# the terminal


def graded(student: str, points: float = 5.0, **more) -> Graded:
    return Graded(student, points, 5.0, more.pop("outcome", "graded"), **more)


def printed(capsys, *students: Graded, everybody: bool = False) -> str:
    cli._print_summary(Summary(SMALL, "process", list(students), 3, 60), everybody=everybody)
    return " ".join(capsys.readouterr().out.split())


def test_the_summary_of_a_large_class_names_those_who_need_a_person_and_not_the_others(capsys):
    good = [graded(f"s{number:02}") for number in range(60)]
    odd = graded("odd", 2.0, outcome="review", reasons=("too fast",), unmeasured=("generate_timed",))
    zeros = {"median_and_iqr": "died: it crashed", "SPOT_THE_MISTAKE": "not answered"}
    dead = graded("dead", 0.0, zeros=zeros, outcomes={"median_and_iqr": "died", "SPOT_THE_MISTAKE": "untouched"})
    lost = graded("lost", 0.0, outcome="failed", reasons=("the disk is full",))
    said = printed(capsys, *good, odd, dead, lost)
    assert "62 graded (3 judged, 60 unchanged), 1 needs a person" in said
    assert "1 could not be graded" in said
    assert "median 5 of 5, 60 with all, 1 with none" in said
    assert "odd 2 of 5 review too fast" in said
    assert "dead 0 of 5 graded, died median_and_iqr died: it crashed" in said
    assert "lost not graded failed the disk is full" in said
    assert "s07" not in said and "Nothing is odd about the other 60" in said
    assert "generate_timed: the speed of 1 could not be measured" in said
    assert "s07 5 of 5" in printed(capsys, *good, odd, everybody=True)


def test_the_summary_of_a_small_class_says_why_each_zero_is_one(capsys):
    fined = graded("bob", 2.0, zeros={"q": "not answered"}, late_penalty=1.0, late_seconds=60.0)
    said = printed(capsys, graded("ada"), fined, graded("cleo", late_seconds=5000.0), graded("dan", late_seconds=2e5))
    assert "Everybody" in said and "ada 5 of 5 graded" in said
    assert "bob 2 of 5 (late: -1) graded q not answered" in said
    assert "cleo 5 of 5 (late by 2 h) graded" in said and "dan 5 of 5 (late by 2 days) graded" in said


@pytest.mark.cheats
def test_no_name_and_no_reason_can_drive_the_terminal(capsys):
    cli._print_summary(
        Summary(SMALL, "process", [graded(HOSTILE, outcome="review", reasons=(HOSTILE,))]), everybody=False
    )
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\u202e" not in said and "[red]" in said and "x[/y]" in said


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (Verdict("x", 0, 1, "untouched", note="not answered yet"), "not answered"),
        (Verdict("x", 0, 1, "died", note="your code did not come back: it crashed"), "died: it crashed"),
        (
            Verdict("x", 0, 1, "timeout", note="your code did not finish within 20 s"),
            "timeout: did not finish within 20 s",
        ),
        (Verdict("x", 0, 1, "none", [RungResult("r", False, 1, "the mean\nof all")]), "the mean"),
        (Verdict("x", 0, 1, "none", note="1 of 6 right; the same value everywhere"), "1 of 6 right"),
        (Verdict("x", 0, 1, "none"), "nothing was right"),
    ],
)
def test_every_zero_has_a_reason(verdict, why):
    assert why_nothing(verdict) == why


def test_the_pace_says_how_long_it_may_still_take(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("autograder.classroom.grade.time.monotonic", lambda: now[0])
    said = []
    pace = Pace(10, lambda text, fraction: said.append(text))
    pace.begin("judged", 8, then=2)
    pace.tell("ada: checking", 0.0)
    now[0] = 60.0
    pace.step()
    pace.done = 3
    now[0] = 120.0
    pace.step()
    assert said == [
        "0 of 10 graded, 0 of 8 judged · ada: checking",
        "0 of 10 graded, 1 of 8 judged, about 7 min left, then 2 to measure",
        "3 of 10 graded, 2 of 8 judged, about 6 min left, then 2 to measure",
    ]
