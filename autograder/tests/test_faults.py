"""Submissions that break, row by row of what judging must survive, and the innocent student graded next.

One class holds every fault and innocents behind them. It is graded once by `autograder grade` and once by `nbgrader
autograde`, as commands, each under another locale; the tests read what was saved. What needs a run of its own stands
below; a class of a hundred, with faults and cheats in it, is in test_large_class.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode, v4

from autograder import chapters
from autograder.classroom.pipeline import is_judged, judged_cells
from autograder.classroom.verdicts import submission_digest
from autograder.judge import Cell, Judge, Verdict, read_cells, report_text
from autograder.tests.classes import (
    AUTOGRADER,
    NBGRADER,
    REPOSITORY,
    RESTORED,
    SECONDS,
    SMALL,
    SOLVED,
    TIER,
    cell,
    changed,
    ended,
    exercise_cells,
    gradebook_of,
    graded_copy,
    hand_in,
    nbgrader_cell,
    registered,
    released_notebook,
    small_source,
    started,
    with_cells,
)

pytestmark = pytest.mark.faults

FULL = {"median_and_iqr": 3.0, "paired_ratio": 5.0, "SPOT_THE_MISTAKE": 2.0}
LOST = dict.fromkeys(FULL, 0.0)
QUIZ = LOST | {"SPOT_THE_MISTAKE": 2.0}
BUDGET = "\nfrom autograder.chapters.c00_measure_honestly import MedianAndIqr\nMedianAndIqr.seconds = 10\n"


@cache
def solutions() -> NotebookNode:
    return nbformat.read(REPOSITORY / "source" / SMALL / f"{SMALL}.ipynb", 4)


IMPORTS = "from statistics import median\nimport numpy as np\n"
RIGHT = IMPORTS + cell(solutions(), "median_and_iqr_solution").source
MEAN = RIGHT.replace("return middle,", "return np.mean(samples),")


def answered(released: NotebookNode, median: str = RIGHT) -> NotebookNode:
    """The released notebook with right answers, or with this answer to its first exercise."""
    made = changed(released, "median_and_iqr_solution", source=median)
    cell(made, "paired_ratio_solution").source = IMPORTS + cell(solutions(), "paired_ratio_solution").source
    cell(made, "SPOT_THE_MISTAKE_solution").source = f"SPOT_THE_MISTAKE = {dict(chapters.find('SPOT_THE_MISTAKE').key)}"
    return made


def in_format(minor: int, ids: Callable[[int], str | None]) -> Callable[[NotebookNode], str]:
    """A right notebook as JSON of an older or a careless editor's making."""

    def made(released: NotebookNode) -> str:
        notebook = answered(released) | {"nbformat_minor": minor}
        for number, one in enumerate(notebook["cells"]):
            one.pop("id")
            if (given := ids(number)) is not None:
                one["id"] = given
        return json.dumps(notebook, ensure_ascii=False)

    return made


def with_outputs(released: NotebookNode, text: str) -> NotebookNode:
    made = answered(released, RIGHT.replace("return middle", "print('a line\\n' * 200_000)\n    return middle"))
    made.cells[2].outputs = [v4.new_output("stream", name="stdout", text=text)]
    return made


STUBBORN = """import signal
def median_and_iqr(samples):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass"""
HOARDS = """import numpy as np
def median_and_iqr(samples):
    held = []
    while True:
        held.append(np.empty(1 << 30, dtype=np.uint8))"""
CRIES = """import os, sys, warnings
def cry():
    warnings.warn("a warning")
    print("50%|#####     |", end="\\r", file=sys.stderr)
    os.write(2, b"native text")
"""
SHADOWS = "check = print\nautograder = None\nIn = None\nOut = None\nget_ipython = None\n__name__ = 'mine'\n"
MAGICS = "%%time\n%matplotlib inline\n!pip install nothing\n"


@dataclass(frozen=True)
class Fault:
    """What one student handed in, the marks that differ from full ones, and the reason they are told."""

    row: int
    make: Callable[[NotebookNode], NotebookNode | str | None]
    marks: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    unread: bool = False  # there is no notebook of its name that can be read
    file: str = ""  # its name, where it is not the assignment's
    beside: tuple[str, ...] = ()  # files in the same folder, all of which shout when they are imported

    @property
    def expected(self) -> dict[str, float]:
        return FULL | self.marks


def code(row: int, source: str, points: float, reason: str = "") -> Fault:
    return Fault(row, lambda released: answered(released, source), {"median_and_iqr": points}, reason)


def unreadable(make: Callable[[NotebookNode], str | None], reason: str, **more) -> Fault:
    return Fault(6, make, LOST, reason, unread=True, **more)


RETURNS = RIGHT.replace("return middle, q3 - q1", "return {}")
FAULTS = {
    "exit": code(1, "import os\ndef median_and_iqr(samples):\n    os._exit(7)", 0, "process with exit status 7"),
    "quit": code(1, "def median_and_iqr(samples):\n    quit()", 0, "your code ended itself (SystemExit)"),
    "system exit": code(1, "def median_and_iqr(samples):\n    raise SystemExit(3)", 0, "ended itself (SystemExit)"),
    "segfault": code(
        1, "import ctypes\ndef median_and_iqr(samples):\n    ctypes.string_at(0)", 0, "with a segmentation fault"
    ),
    "memory": code(
        1,
        HOARDS,
        0,
        "MemoryError",
    ),
    "endless": code(2, "def median_and_iqr(samples):\n    while True: pass", 0, "did not finish within"),
    "stubborn": code(2, STUBBORN, 0, "did not finish within"),
    "megabytes": code(3, RIGHT.replace("    q1", "    print('x' * 10**8)\n    q1"), 3),
    "lines": Fault(3, lambda released: with_outputs(released, "a line\n" * 200_000)),
    "large file": Fault(3, lambda released: " " * (65 << 20), LOST, "is larger than 64 MB", unread=True),
    **{f"test cell {how}": Fault(4, lambda nb, how=how: RESTORED[how](answered(nb))) for how in RESTORED},
    "a gift": Fault(
        5,
        lambda nb: with_cells(
            answered(nb), [*answered(nb).cells, nbgrader_cell("code", "100", "gift", grade=True, points=100)]
        ),
    ),
    "answer twice": Fault(
        5,
        lambda nb: with_cells(
            answered(nb), [*changed(answered(nb, MEAN), "median_and_iqr").cells, *answered(nb).cells]
        ),
    ),
    "format 4.0": Fault(5, in_format(0, lambda number: None)),
    "format 4.4": Fault(5, in_format(4, lambda number: None)),
    "format 4.5 without ids": Fault(5, in_format(5, lambda number: None)),
    "format 4.5 with one id": Fault(5, in_format(5, lambda number: "the-same")),
    "format 3": unreadable(
        lambda nb: json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": []}),
        "no list of cells",
    ),
    "renamed": Fault(6, answered, file="my homework (1)"),
    "nothing": unreadable(lambda nb: None, "no notebook was handed in"),
    "wrong name and a copy": unreadable(answered, "none of the 2 notebooks handed in is called", file="mine"),
    "empty": unreadable(lambda nb: "", "is empty; save the notebook again"),
    "not JSON": unreadable(lambda nb: "Dear teacher,", "is not a notebook, or was only half written"),
    "half": unreadable(lambda nb: nbformat.writes(answered(nb))[:3000], "is not a notebook, or was only half written"),
    "backwards": Fault(7, lambda nb: with_cells(answered(nb), answered(nb).cells[::-1])),
    "defined twice, right last": code(7, f"def median_and_iqr(samples):\n    return 0, 0\n\n\n{RIGHT}", 3),
    "defined twice, wrong last": code(7, f"{RIGHT}\n\n\ndef median_and_iqr(samples):\n    return 0, 0", 0, "0"),
    "shadows": code(7, SHADOWS + RIGHT, 3),
    "warnings": code(8, CRIES + RIGHT.replace("    q1", "    cry()\n    q1"), 3),
    "magics": code(9, MAGICS + RIGHT, 3),
    "a cell that is no Python": Fault(
        9, lambda nb: with_cells(answered(nb), [v4.new_code_cell("so: is )this", id="no"), *answered(nb).cells])
    ),
    "an answer that is no Python": code(9, RIGHT.replace("):", ")", 1), 0, "is not Python yet"),
    "files beside": Fault(10, answered, beside=("torch.py", "statistics.py", "numpy.py", "autograder/__init__.py")),
    "0-d tensors": code(11, "import torch\n" + RETURNS.format("torch.tensor(middle), torch.tensor(q3 - q1)"), 3),
    "nan": code(11, RETURNS.format("float('nan'), q3 - q1"), 1, "nan"),
}
GUARDED = (1, 2, 3, 10)  # rows whose code runs and could harm: an innocent behind each fault, else behind the row


def folder(fault: str) -> str:
    """The student's name: by row, so that it is known who is graded next."""
    return f"{FAULTS[fault].row:02}_{fault.replace(' ', '_')}"


def next_of(fault: str) -> str:
    row = FAULTS[fault].row
    return f"{folder(fault)}_next" if row in GUARDED else f"{row:02}~next"


def innocent(released: NotebookNode, name: str) -> NotebookNode:
    """Not quite right, in a notebook nobody else has, so that nobody else's verdict is its own."""
    return answered(released, f"# {name} grüßt\n{MEAN}")


def hand_in_fault(root: Path, student: str, fault: Fault, released: NotebookNode) -> None:
    path = hand_in(root, student, fault.make(released), name=fault.file)
    if fault.file == "mine":
        shutil.copy(path, path.with_name("another.ipynb"))
    for name in fault.beside:
        file = path.parent / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"open({str(root / 'imported')!r}, 'w').close()\nraise SystemExit('imported')")


def longer_source() -> NotebookNode:
    """The small assignment with one exercise more, which is judged after the one that breaks."""
    source = small_source()
    source.cells[4:4] = exercise_cells("paired_ratio", SOLVED.replace("median_and_iqr(samples)", "paired_ratio(*a)"))
    return source


@pytest.fixture(scope="module")
def empty_course(tmp_path_factory) -> Path:
    """The assignment, entered and released, with a budget for its first exercise that tests can afford."""
    root = registered(tmp_path_factory.mktemp("faults"), SMALL, longer_source())
    with open(root / "nbgrader_config.py", "a") as config:
        config.write(BUDGET)
    return root


@pytest.fixture(scope="module")
def handed_in(empty_course, tmp_path_factory) -> Path:
    """The class."""
    root = Path(shutil.copytree(empty_course, tmp_path_factory.mktemp("class") / "course"))
    released = released_notebook(root)
    for name, fault in FAULTS.items():
        hand_in_fault(root, folder(name), fault, released)
    for student in sorted({next_of(name) for name in FAULTS} | {"99_jürgen_zoë"}):
        hand_in(root, student, innocent(released, student))
    return root


@dataclass(frozen=True)
class Graded:
    """A class after its grading: where it lies and what the command said."""

    root: Path
    by: str
    said: str

    def marks(self, student: str) -> dict[str, float] | None:
        """The saved marks by check; None for whom nothing was saved."""
        with gradebook_of(self.root) as gradebook:
            saved = gradebook.find_submission_notebook(SMALL, SMALL, student)
            return {grade.name: grade.auto_score for grade in saved.grades if grade.name in FULL}

    def flagged(self, student: str) -> set[str]:
        with gradebook_of(self.root) as gradebook:
            saved = gradebook.find_submission_notebook(SMALL, SMALL, student)
            return {grade.name for grade in saved.grades if grade.needs_manual_grade and grade.name in FULL}

    def told(self, student: str, exercise: str = "median_and_iqr") -> str:
        """The report in the student's copy."""
        return " ".join(cell(graded_copy(self.root, student), exercise).outputs[0].text.split())


COMMANDS = {
    "autograder grade": (*AUTOGRADER, "grade", SMALL, "--tier", TIER, "--json"),
    "nbgrader autograde": (*NBGRADER, "autograde", SMALL, f"--Judge.tier={TIER}"),
}
LOCALES = {
    "autograder grade": {"LC_ALL": "C", "LANG": None, "PYTHONUTF8": None},
    "nbgrader autograde": {"LC_ALL": None, "LANG": "de_DE.UTF-8", "PYTHONUTF8": None},
}


def grade(by: str, root: Path, *more: str, status: int | None = 0, **environment: str | None) -> str:
    """Grade the course by one of the commands; its JSON, or nbgrader's log."""
    out, log = ended(started(root, *COMMANDS[by], *more, **environment), status)
    return out if by == "autograder grade" else log


def digest_of(root: Path, student: str) -> str:
    """By what a verdict on this student's code is found again."""
    return submission_digest(judged_cells(graded_copy(root, student)))


@pytest.fixture(scope="module")
def graded_by_ours(handed_in, tmp_path_factory) -> Graded:
    root = Path(shutil.copytree(handed_in, tmp_path_factory.mktemp("ours") / "course"))
    return Graded(root, "autograder grade", grade("autograder grade", root, status=1, **LOCALES["autograder grade"]))


@pytest.fixture(scope="module")
def graded_by_nbgrader(handed_in, graded_by_ours, tmp_path_factory) -> Graded:
    """nbgrader judges the first fault of each row itself, and takes the verdicts on the others that are there."""
    root = Path(shutil.copytree(handed_in, tmp_path_factory.mktemp("theirs") / "course"))
    shutil.copytree(graded_by_ours.root / ".verdicts", root / ".verdicts")
    firsts = {fault.row: name for name, fault in reversed(FAULTS.items())}.values()
    anew = {digest_of(graded_by_ours.root, student) for name in firsts for student in (folder(name), next_of(name))}
    for path in list((root / ".verdicts").rglob("*.json")):
        if json.loads(path.read_text())["key"]["submission"] in anew:
            path.unlink()
    assert len(list((root / ".verdicts").rglob("*.json"))) < len(list((root / "submitted").iterdir())) - len(firsts)
    said = grade("nbgrader autograde", root, status=1, **LOCALES["nbgrader autograde"])
    return Graded(root, "nbgrader autograde", said)


@pytest.fixture(scope="module", params=COMMANDS)
def graded(request) -> Graded:
    return request.getfixturevalue("graded_by_ours" if request.param == "autograder grade" else "graded_by_nbgrader")


@pytest.fixture(scope="module")
def alone(empty_course, tmp_path_factory) -> dict[str, float]:
    """The marks of an innocent student who is the only one."""
    root = Path(shutil.copytree(empty_course, tmp_path_factory.mktemp("alone") / "course"))
    hand_in(root, "alone", innocent(released_notebook(root), "alone"))
    grade("autograder grade", root)
    marks = Graded(root, "", "").marks("alone")
    assert marks == FULL | {"median_and_iqr": 2.0}
    return marks


def is_skipped_by(command: str, fault: Fault) -> bool:
    """Whether nbgrader finds no notebook of the right name, and so grades nothing."""
    return command == "nbgrader autograde" and (fault.file != "" or fault is FAULTS["nothing"])


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_its_own_points_and_tells_why_and_the_next_student_is_untouched(graded, alone, name):
    fault, student = FAULTS[name], folder(name)
    if is_skipped_by(graded.by, fault):
        assert f"There was an error processing assignment '{SMALL}' for student '{student}'" in graded.said
        assert not (graded.root / "autograded" / student).exists()
    else:
        assert graded.marks(student) == fault.expected, graded.told(student)
        assert fault.reason in graded.told(student)
        assert graded.flagged(student) == (set(FULL) if fault.unread else set())
    assert graded.marks(next_of(name)) == alone
    assert not graded.flagged(next_of(name))


def test_every_row_of_faults_is_in_the_class():
    assert {fault.row for fault in FAULTS.values()} == set(range(1, 12))


def test_nobody_imports_what_lies_beside_a_notebook(graded):
    assert not (graded.root / "imported").exists()


def test_everybody_has_marks_or_a_reason(graded, alone):
    everybody = {path.name for path in (graded.root / "submitted").iterdir()}
    for student in everybody:
        marks = graded.marks(student)
        lost = [name for name in FULL if marks[name] in (0, None)]
        assert not lost or student in graded.said or all(graded.told(student, name) for name in lost)
    assert graded.marks("99_jürgen_zoë") == alone


def test_the_summary_names_everybody_who_needs_a_person_and_why(graded):
    needs = {name: fault for name, fault in FAULTS.items() if fault.unread or is_skipped_by(graded.by, fault)}
    if graded.by == "autograder grade":
        summary = json.loads(graded.said)
        assert len(summary["students"]) == len(list((graded.root / "submitted").iterdir()))
        rows = {row["student"]: row for row in summary["students"] if row["outcome"] != "graded"}
        assert set(rows) == set(map(folder, needs))
        assert all(needs[name].reason in rows[folder(name)]["reasons"][0] for name in needs)
    else:
        for name, fault in needs.items():
            assert f"{folder(name)}/" in graded.said or f"'{folder(name)}'" in graded.said
            assert is_skipped_by(graded.by, fault) or fault.reason in graded.said


def test_files_stay_small_whatever_was_printed(graded):
    for name in ("megabytes", "lines", "large file"):
        copies = (graded.root / "autograded" / folder(name)).rglob("*")
        assert sum(path.stat().st_size for path in copies if path.is_file()) < 200_000
    assert sum(path.stat().st_size for path in (graded.root / ".verdicts").rglob("*.json")) < 5_000_000


def test_endless_loops_cost_no_more_than_the_sum_of_the_budgets(graded):
    budgets = sum(exercise.seconds for exercise in chapters.load(SMALL).exercises)
    verdicts = [json.loads(path.read_text())["report"] for path in (graded.root / ".verdicts").rglob("*.json")]
    endless = [v for v in verdicts if any(e["outcome"] == "timeout" for e in v["exercises"])]
    assert len(endless) == 2  # the second catches every exception
    assert all(sum(exercise["seconds"] for exercise in verdict["exercises"]) < budgets for verdict in endless)


# runs of their own


def quick(released: NotebookNode) -> NotebookNode:
    """A notebook worth the quiz's two points, for which no code has to run."""
    return with_cells(released, [cell(answered(released), "SPOT_THE_MISTAKE_solution")])


@pytest.fixture
def course(empty_course, tmp_path) -> Path:
    """The course for one test alone, without submissions."""
    return Path(shutil.copytree(empty_course, tmp_path / "course"))


@pytest.fixture
def released(empty_course) -> NotebookNode:
    return released_notebook(empty_course)


def all_marks(root: Path) -> dict[str, dict[str, float]]:
    students = sorted(path.name for path in (root / "submitted").iterdir())
    return {student: Graded(root, "", "").marks(student) for student in students}


def all_copies_are_judged(root: Path) -> bool:
    copies = [root / "autograded" / student.name / SMALL for student in (root / "submitted").iterdir()]
    return all(is_judged(copy / f"{SMALL}.ipynb") for copy in copies)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen) -> None:
    """Until something is so, while a command runs; it must not end before."""
    until = time.monotonic() + SECONDS
    while not condition():
        assert process.poll() is None and time.monotonic() < until, process.communicate()
        time.sleep(0.01)


@pytest.mark.parametrize("by", COMMANDS)
def test_the_penalty_of_a_late_submission_follows_the_due_date(course, released, by):
    for student, when in (("late", "2026-05-02 12:00:00 UTC"), ("on_time", "2026-04-02 12:00:00 UTC")):
        (hand_in(course, student, quick(released)).parent / "timestamp.txt").write_text(when)
    with open(course / "nbgrader_config.py", "a") as config:
        config.write("c.LateSubmissionPlugin.penalty_method = 'zero'\n")
    for due, penalty in (("2026-05-01 12:00:00", 2.0), ("2026-05-03 12:00:00", 0.0)):
        with gradebook_of(course) as gradebook:
            gradebook.update_or_create_assignment(SMALL, duedate=due)
        grade(by, course, *(["--force"] if by == "nbgrader autograde" else []))
        assert all_marks(course) == {"late": QUIZ, "on_time": QUIZ}
        with gradebook_of(course) as gradebook:
            saved = {s: gradebook.find_submission_notebook(SMALL, SMALL, s) for s in ("late", "on_time")}
            assert {s: n.late_submission_penalty or 0.0 for s, n in saved.items()} == {"late": penalty, "on_time": 0.0}


@pytest.mark.parametrize("by", COMMANDS)
def test_a_timestamp_nobody_can_read_is_named_and_the_others_are_graded(course, released, by):
    (hand_in(course, "1_when", quick(released)).parent / "timestamp.txt").write_text("yesterday")
    hand_in(course, "2_next", quick(released))
    said = grade(by, course, status=None)
    assert "1_when/00_measure_honestly/timestamp.txt is no time" in said
    assert Graded(course, by, said).marks("2_next") == QUIZ
    assert not (course / "autograded" / "1_when").exists()


def hand_in_three(root: Path, released: NotebookNode, middle: str) -> dict[str, dict[str, float]]:
    """A class of three with an exercise that breaks in the middle; the marks they are to have."""
    hand_in(root, "1_before", quick(released))
    hand_in(root, "2_breaks", FAULTS[middle].make(released))
    hand_in(root, "3_after", innocent(released, "after"))
    return {"1_before": QUIZ, "2_breaks": FAULTS[middle].expected, "3_after": FULL | {"median_and_iqr": 2.0}}


@pytest.mark.parametrize("by", COMMANDS)
def test_grading_twice_gives_the_same_marks_and_judges_nobody_again(course, released, by):
    expected = hand_in_three(course, released, "exit")
    verdicts = []
    for more in ([], [], ["--force"]) if by == "nbgrader autograde" else ([], []):
        grade(by, course, *more)
        assert all_marks(course) == expected
        assert all_copies_are_judged(course)
        verdicts.append({path: path.stat().st_mtime_ns for path in (course / ".verdicts").rglob("*.json")})
    assert len(verdicts[0]) == 3
    assert all(later == verdicts[0] for later in verdicts)


@pytest.mark.parametrize("other", ["autograder grade", "nbgrader autograde"])
def test_two_gradings_at_once_lose_nothing(course, released, other):
    expected = hand_in_three(course, released, "exit")
    both = [
        started(course, *COMMANDS["nbgrader autograde"], "--force"),
        started(course, *COMMANDS[other], *(["--force"] if other == "nbgrader autograde" else [])),
    ]
    for process in both:
        ended(process)
    assert all_marks(course) == expected
    assert all_copies_are_judged(course)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
@pytest.mark.parametrize("by", COMMANDS)
def test_grading_that_was_ended_half_way_is_taken_up_again(course, released, by, how):
    expected = hand_in_three(course, released, "endless")
    scratch = course.parent / "scratch"  # who is killed cannot clear up
    scratch.mkdir()
    process = started(course, *COMMANDS[by], **({"TMPDIR": str(scratch)} if how == signal.SIGKILL else {}))
    copy = course / "autograded" / "2_breaks" / SMALL / f"{SMALL}.ipynb"
    begun = copy.exists if by == "nbgrader autograde" else lambda: any((course / ".verdicts").rglob("*.json"))
    wait_until(begun, process)
    process.send_signal(how)
    ended(process, status=None)
    assert not all_copies_are_judged(course)
    grade(by, course)
    assert all_marks(course) == expected
    assert all_copies_are_judged(course)


@pytest.mark.parametrize("by", COMMANDS)
def test_what_cannot_be_read_is_flagged_and_named_and_mended_by_a_new_submission(course, released, by):
    path = hand_in(course, "1_half", nbformat.writes(answered(released))[:3000])
    hand_in(course, "2_next", quick(released))
    said = grade(by, course, status=1)
    assert "1_half" in said and "half written" in said
    assert all_marks(course) == {"1_half": LOST, "2_next": QUIZ}
    assert Graded(course, by, said).flagged("1_half") == set(FULL)
    path.write_text(nbformat.writes(quick(released)))
    grade(by, course, *(["--force"] if by == "nbgrader autograde" else []))
    assert all_marks(course) == {"1_half": QUIZ, "2_next": QUIZ}
    assert not Graded(course, by, said).flagged("1_half")


BROKEN = {  # what is wrong with the installed package
    "missing": lambda package: replaced(
        package, "__init__.py", "raise ModuleNotFoundError(\"No module named 'autograder'\")"
    ),
    "half installed": lambda package: shutil.rmtree(package / "classroom"),
    "a broken exporter": lambda package: replaced(package, "classroom/exporter.py", "import no_such_module"),
    "a broken chapter": lambda package: replaced(package, "chapters/c00_measure_honestly.py", "import no_such_module"),
    "a broken bench": lambda package: replaced(package, "judge/bench.py", "raise RuntimeError"),
}


def replaced(package: Path, file: str, text: str) -> None:
    assert (package / file).exists()
    (package / file).write_text(text)


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("by", COMMANDS)
def test_with_a_broken_package_nobody_is_graded(course, released, tmp_path, by, what):
    hand_in(course, "ada", answered(released))
    shutil.copy(REPOSITORY / "nbgrader_config.py", course)
    package = tmp_path / "broken" / "autograder"
    shutil.copytree(REPOSITORY / "autograder", package, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    BROKEN[what](package)
    grade(by, course, status=None, PYTHONPATH=str(package.parent))
    assert not list(course.glob("autograded/*/*"))
    with gradebook_of(course) as gradebook:
        assert not any(
            g.auto_score for s in gradebook.assignment_submissions(SMALL) for n in s.notebooks for g in n.grades
        )


# results of the wrong kind

ACCEPTED = {
    "median_and_iqr": [
        "tuple(np.float64(x) for x in answer)",
        "np.array(answer)",
        "np.ma.array(answer)",
        "namedtuple('Spread', 'middle iqr')(*answer)",
        "np.array(answer, dtype=np.float32)",
        "torch.tensor(answer, dtype=torch.float64, requires_grad=True)",
        "torch.tensor([answer[0], 0, answer[1]], dtype=torch.float64)[::2]",
    ],
    "time_calls": [
        "tuple(answer)",
        "np.array(answer)",
        "torch.tensor(answer)",
        "[torch.tensor(x, dtype=torch.float64) for x in answer]",
        "torch.tensor(answer, dtype=torch.float64).repeat_interleave(2)[::2]",
        "torch.tensor(answer, dtype=torch.float64, requires_grad=True)",
    ],
    "paired_ratio": [
        "np.float64(answer)",
        "torch.tensor(answer)",
        "torch.tensor(answer, dtype=torch.float64, requires_grad=True)",
    ],
    "latency_metrics": [
        "OrderedDict(answer)",
        "answer | {'itl': np.array(answer['itl'])}",
        "{k: np.float32(v) if isinstance(v, float) else v for k, v in answer.items()}",
        "{k: torch.tensor(v, dtype=torch.float64) if isinstance(v, float) else v for k, v in answer.items()}",
    ],
    "sweep_prompt_lengths": [
        "{np.int64(k): list(v) for k, v in answer.items()}",
        "{k: tuple(torch.tensor(x, dtype=torch.float64) for x in v) for k, v in answer.items()}",
    ],
    "generate_timed": [
        "list(answer)",
        "(np.array(answer[0]), *answer[1:])",
        "(torch.tensor(answer[0], dtype=torch.int32), *answer[1:])",
        "([torch.tensor(t) for t in answer[0]], *answer[1:])",
    ],
}
TWO = "expected two numbers, the median and the interquartile range"
REFUSED = {
    "median_and_iqr": {
        "None": f"You returned None; {TWO}",
        "True": f"You returned True; {TWO}",
        "tuple(bool(x) for x in answer)": f"a tuple of 2 with True in it; {TWO}",
        "tuple(map(str, answer))": f"in it; {TWO}",
        "tuple(map(Decimal, answer))": f"a tuple of 2 with a Decimal in it; {TWO}",
        "tuple(map(complex, answer))": f"a tuple of 2 with a complex in it; {TWO}",
        "(x for x in answer)": f"You returned a generator; {TWO}",
        "set(answer)": f"You returned a set; {TWO}",
        "(10**400, 10**400)": f"a tuple of 2 with a whole number of 1329 bits in it; {TWO}",
        "torch.tensor([answer])": f"a float64 tensor of shape [1, 2]; {TWO}",
        "torch.tensor(answer, device='meta')": f"a float64 tensor on meta; {TWO}",
        "np.array(answer, dtype=object)": f"a numpy ndarray of object; {TWO}",
        "median_and_iqr": f"You returned a function; {TWO}",
        "(float('nan'), float('nan'))": "you gave nan, expected 0.",
        "(float('inf'), float('inf'))": "you gave inf, expected 0.",
        "(1e308, 1e308)": "you gave 1e+308, expected 0.",
        "(-answer[0], -answer[1])": "The sign is wrong",
        "torch.tensor(answer, dtype=torch.float16)": "you gave 0.",
    },
    "time_calls": {
        "(x for x in answer)": "You returned a generator; expected a list of",
        "[True] * len(answer)": "with True in it; expected a list of",
        "[float('nan')] * len(answer)": "you returned nan ms; it took",
        "[float('inf')] * len(answer)": "you returned inf ms; it took",
        "[-x for x in answer]": "you returned -",
        "[10**400] * len(answer)": "with a whole number of 1329 bits in it; expected a list of",
        "torch.tensor(answer, dtype=torch.float16)": "; it took",
    },
    "paired_ratio": {
        "[answer]": "; expected one number",
        "torch.tensor([answer])": "a float32 tensor of shape [1]; expected one number",
        "True": "You returned True; expected one number",
        "str(answer)": "'; expected one number",
        "10**400": "a whole number of 1329 bits; expected one number",
        "float('nan')": "you gave nan",
        "float('inf')": "you gave inf",
        "-answer": "you gave -",
    },
    "latency_metrics": {
        "list(answer.values())": "must return a dict; it returned a list of 4",
        "SimpleNamespace(**answer)": "must return a dict; it returned a SimpleNamespace",
        "answer | {'itl': (x for x in answer['itl'])}": "you gave a generator, expected a list of 2 gaps",
        "answer | {'ttft': True}": "you gave True, expected",
        "dict.fromkeys(answer, float('nan'))": "you gave nan, expected",
        "dict.fromkeys(answer, 10**400)": "you gave a whole number of 1329 bits, expected",
        "{k: -v if isinstance(v, float) else v for k, v in answer.items()}": "you gave -",
    },
    "sweep_prompt_lengths": {
        "list(answer.items())": "return a dict from length to (ttft, tpot); you returned a list of",
        "{k: (x for x in v) for k, v in answer.items()}": "has a generator, expected the pair",
        "dict.fromkeys(answer, (True, True))": "has a tuple of 2 with True in it, expected the pair",
        "dict.fromkeys(answer, (float('inf'), float('inf')))": "you gave inf, expected",
    },
    "generate_timed": {
        "answer[:2]": "return the tuple (tokens, sent, token_times); you returned a tuple of 2",
        "((t for t in answer[0]), *answer[1:])": "tokens must be a list of 6 ints; it is a generator",
        "([True] * len(answer[0]), *answer[1:])": "tokens must be a list of 6 ints; it is a list of 6 with True in it",
        "(torch.tensor([answer[0]]), *answer[1:])": "it is a int64 tensor of shape [1, 6]",
        "(answer[0], float('nan'), [float('nan')] * len(answer[2]))": "are readings of clock(), unchanged",
    },
}
RETURNING = """import numpy as np
import torch
from collections import OrderedDict, namedtuple
from decimal import Decimal
from types import SimpleNamespace
right = {name}
def {name}(*args, **kwargs):
    answer = right(*args, **kwargs)
    return {expression}"""


@pytest.fixture(scope="module")
def judge():
    with Judge(tier=TIER, measure=False) as judge:
        yield judge


def verdict_on_result(judge: Judge, name: str, expression: str) -> Verdict:
    """What the course's own solution gets when its result is made into something else."""
    slug = chapters.chapter_of(name)
    cells = read_cells(REPOSITORY / "source" / slug / f"{slug}.ipynb")
    last = Cell(RETURNING.format(name=name, expression=expression), number=99)
    return judge.judge(chapters.find(name), [*cells, last])


@pytest.mark.parametrize(("name", "expression"), [(name, e) for name, given in ACCEPTED.items() for e in given])
def test_a_result_that_a_reader_would_accept_is_accepted(judge, name, expression):
    exercise = chapters.find(name)
    verdict = verdict_on_result(judge, name, expression)
    assert verdict.points == exercise.points - exercise.speed_points, report_text(verdict)


@pytest.mark.parametrize(("name", "expression"), [(name, e) for name, given in REFUSED.items() for e in given])
def test_a_result_of_the_wrong_kind_is_told_what_came_and_what_was_expected(judge, name, expression):
    exercise = chapters.find(name)
    verdict = verdict_on_result(judge, name, expression)
    assert verdict.points < exercise.points - exercise.speed_points
    assert verdict.outcome in ("none", "partial")
    assert REFUSED[name][expression] in " ".join(rung.message for rung in verdict.rungs if not rung.ok)


def test_two_numbers_that_look_the_same_in_a_message_are_said_to_differ():
    message = chapters.find("median_and_iqr")._why_median(0.0123412, [0.01, 0.0123410, 0.05])
    assert "you gave 0.01234, expected 0.01234. They differ in digits that are not shown" in message
