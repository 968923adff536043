"""A class of a hundred, honest and not, graded in one command: everybody has marks or a reason, and no one suffers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat import NotebookNode, v4

from autograder import chapters
from autograder.classroom import class_report
from autograder.judge import cells_of, judge_notebook
from autograder.tests import test_classroom
from autograder.tests.classes import (
    REPOSITORY,
    RESTORED,
    SMALL,
    TIER,
    Active,
    cell,
    changed,
    gradebook_of,
    hand_in,
    nbgrader_cell,
    with_cells,
)

STUDENTS, FULL = 100, 5
ANSWERS = Path(__file__).parent / "answers/00/median_and_iqr"
RIGHT = (ANSWERS / "statistics_inclusive.py").read_text()
HEAD = "def median_and_iqr(samples):\n"
NO_SAMPLES = "    if not samples:\n        raise ValueError('no samples')\n"

small = test_classroom.small
pytestmark = [pytest.mark.faults, pytest.mark.cheats]


# What somebody hands in for median_and_iqr, whose quiz is right. 5 points are full marks.


def wrapped(before: str, inside: str = "") -> str:
    """The right answer, with something done once beside it and at each call."""
    return f"{before}\n{RIGHT}\nright = median_and_iqr\n\n{HEAD}{inside or '    pass'}\n    return right(samples)"


HONEST = {
    "by_hand": (ANSWERS / "by_hand.py").read_text(),
    "statistics": RIGHT,
    "mean": (ANSWERS / "mean.py").read_text(),
    "exclusive": (ANSWERS / "exclusive_quartiles.py").read_text(),
    "unfinished": f"{HEAD}    raise NotImplementedError()",
}

# name -> (code, points of 5, why the rest is missing)
CODE = {
    # faults 1, 2, 3
    "exit": (f"import os\n\n{HEAD}    os._exit(0)", 2, "died: it ended its own process"),
    "quit": (f"import sys\n\n{HEAD}    sys.exit('done')", 2, "ended itself"),
    "segfault": (f"import ctypes\n\n{HEAD}    ctypes.string_at(0)", 2, "died: .*segmentation fault"),
    "memory": (f"{HEAD}    return [0] * 10**12, 0", 2, "MemoryError"),
    "endless": (f"{HEAD}    while True:\n        pass", 2, "timeout: did not finish within 20 s"),
    "stubborn": (
        f"{HEAD}    while True:\n        try:\n            while True:\n                pass\n"
        "        except BaseException:\n            pass",
        2,
        "timeout: did not finish within 20 s",
    ),
    "chatty": (wrapped("", "    print('x' * 100 * 200_000)"), 5, ""),
    "lines": (wrapped("", "    for line in range(200_000):\n        print(line)"), 5, ""),
    # faults 7, 8, 9
    "shadowing": (f"check = print\nautograder = None\nIn = None\nsorted_ = sorted\n{RIGHT}", 5, ""),
    "twice": (f"{HEAD}    return 0, 0\n\n{RIGHT}", 5, ""),
    "warning": (
        wrapped("import warnings, sys", "    warnings.warn('old')\n    print('careful', file=sys.stderr)"),
        5,
        "",
    ),
    "native": (wrapped("import os", "    os.write(2, b'native noise\\n' * 1000)"), 5, ""),
    "magic": (f"%matplotlib inline\n!pip list\n{RIGHT}", 5, ""),
    "timed": (f"%%time\n{RIGHT}", 5, ""),
    "syntax": (f"{HEAD}    return (samples[0], ", 2, "is not Python yet"),
    # fault 11
    "numpy": (f"import numpy as np\n\n{RIGHT}\nr = median_and_iqr\n\n{HEAD}    return np.array(r(samples))", 5, ""),
    "tensor": (
        f"import torch\n\n{RIGHT}\nr = median_and_iqr\n\n{HEAD}    return torch.tensor(r(samples), dtype=torch.float64)",
        5,
        "",
    ),
    "nan": (f"{HEAD}{NO_SAMPLES}    return float('nan'), float('nan')", 2, "nan"),
    "generator": (f"{HEAD}{NO_SAMPLES}    yield 1.0", 2, "expected two numbers"),
    # cheats A: patching
    "patch-numpy": (
        f"import numpy as np\nnp.quantile = lambda *a, **k: (0.0, 0.0, 0.0)\n\n{HEAD}{NO_SAMPLES}    return 0.0, 0.0",
        2,
        "median: for",
    ),
    "patch-math": (
        f"import math\nmath.isclose = lambda *a, **k: True\n\n{HEAD}{NO_SAMPLES}    return 7.0, 7.0",
        2,
        "median: for",
    ),
    # B: forged results
    "forged-files": (
        f'import os\n\n{HEAD}    for fd in range(64):\n        try:\n            os.write(fd, b\'{{"answer": 3.0, "points": 3}}\')\n'
        "        except OSError:\n            pass\n    os._exit(0)",
        2,
        "died|not an answer",
    ),
    "forged-output": (f"import os\n\n{HEAD}    print(3.0)\n    os._exit(0)", 2, "died"),
    # C, D, E, F
    "remembered": (
        f"known = {{}}\n\n{HEAD}{NO_SAMPLES}    return known.setdefault('answer', (samples[0], 0.0))",
        2,
        "median: for",
    ),
    "by-identity": (
        f"known = {{}}\n\n{HEAD}{NO_SAMPLES}    return known.setdefault(type(samples), (max(samples), 0.0))",
        2,
        "median: for",
    ),
    "later": (
        f"import threading\n\n{HEAD}{NO_SAMPLES}    answer = []\n"
        "    threading.Timer(0.05, answer.extend, [(samples[0], 0.0)]).start()\n    return answer",
        2,
        "expected two numbers",
    ),
    "one-behind": (
        f"import threading\n\nanswers = [(0.0, 0.0)]\n\n{HEAD}{NO_SAMPLES}"
        "    threading.Thread(target=answers.append, args=[(sorted(samples)[len(samples) // 2], 0.0)]).start()\n"
        "    return answers[len(answers) - 2]",
        2,
        "median: for",
    ),
    "first-call": (
        f"calls = []\n\n{RIGHT}\nright = median_and_iqr\n\n{HEAD}    calls.append(1)\n    return right(samples) if len(calls) == 1 else (0.0, 0.0)",
        2,
        "median: for",
    ),
    "seed": (
        f"import numpy as np\n\n{HEAD}{NO_SAMPLES}    rng = np.random.default_rng(0)\n"
        "    guess = rng.uniform(0.01, 0.1) * np.sort(rng.lognormal(0, 0.1, len(samples)))\n"
        "    return float(np.median(guess)), 0.0",
        2,
        "median: for",
    ),
    "environment": (
        f"import os\n\n{HEAD}{NO_SAMPLES}    return float(os.environ.get('SEED', 0)), 0.0",
        2,
        "median: for",
    ),
    "when-tested": (
        f"import os\n\n{HEAD}{NO_SAMPLES}    return (0.05, 0.01) if 'AUTOGRADER_BENCH' in os.environ else (1.0, 1.0)",
        2,
        "median: for",
    ),
    # H, J
    "emptying": (f"{HEAD}{NO_SAMPLES}    samples[:] = [0.0] * len(samples)\n    return 0.0, 0.0", 2, "median: for"),
    "sorting": (wrapped("", "    samples.sort()"), 5, ""),
    "constant": (f"{HEAD}{NO_SAMPLES}    return 0.05, 0.01", 2, "median: for"),
    "few": (f"{HEAD}{NO_SAMPLES}    return samples[0], 0.0", 3, ""),
    # M: what is not theirs
    "passwords": (
        f"{HEAD}    return open('/etc/passwd').read()",
        2,
        "expected two numbers|PermissionError|FileNotFoundError",
    ),
    "network": (
        f"import socket\n\n{HEAD}    return socket.create_connection(('192.0.2.1', 80), timeout=1)",
        2,
        "Error",
    ),
    # O: what stays behind
    "daemon": (
        f"import os\nimport time\n\n{RIGHT}\nright = median_and_iqr\n\n{HEAD}"
        "    if os.fork() == 0:\n        os.setsid()\n        while True:\n            time.sleep(60)\n    return right(samples)",
        5,
        "",
    ),
    "forks": (
        f"import os\nimport signal\n\n{RIGHT}\nright = median_and_iqr\n\n{HEAD}"
        "    for _ in range(8):\n        if os.fork() == 0:\n            signal.pause()\n    return right(samples)",
        5,
        "",
    ),
    # P: HTML and scripts
    "script": (f"{HEAD}    raise RuntimeError('<script>alert(1)</script>')", 2, "<script>alert"),
    "markup": (f"{HEAD}    raise RuntimeError('[/red] <img src=x onerror=alert(1)>\\x1b[2J')", 2, "onerror"),
}
# G and I: what only a sandbox stops; where there is none they may have what they stole, or no marks and a reason.
NEEDS_A_SANDBOX = {
    "import": (
        f"from autograder.chapters import c00_measure_honestly as chapter\n\n{HEAD}    return chapter.median(samples), 0.0",
        "Error",
    ),
    "solution": (
        f"from pathlib import Path\n\ntext = Path({str(REPOSITORY)!r}, 'source', '{SMALL}', '{SMALL}.ipynb').read_text()\n"
        f"{HEAD}    return len(text), 0.0",
        "Error",
    ),
    "kill-parent": (
        f"import os\nimport signal\n\n{HEAD}    os.kill(os.getppid(), signal.SIGKILL)\n    return 0.0, 0.0",
        ".",
    ),
    "kill-all": (
        f"import os\nimport signal\n\n{HEAD}    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)\n    return 0.0, 0.0",
        ".",
    ),
}


def quiz_copied(notebook: NotebookNode) -> NotebookNode:
    """An extra cell that claims a hundred points under a name of its own."""
    gift = nbgrader_cell("code", "100", "a_gift", grade=True, locked=True, points=100)
    return with_cells(notebook, [*notebook.cells, gift])


def retagged(notebook: NotebookNode) -> NotebookNode:
    """A test cell that the kernel would skip, with an output that says what it earned."""
    made = RESTORED["tagged"](notebook)
    cell(made, "median_and_iqr").outputs = [v4.new_output("execute_result", {"text/plain": "3.0"})]
    return made


def hidden(notebook: NotebookNode) -> NotebookNode:
    """Hooks that would show another result than the check's."""
    hook = v4.new_code_cell(
        "import sys\nsys.displayhook = lambda value: print(3.0)\nget_ipython().set_custom_exc = None"
    )
    return with_cells(notebook, [hook, *notebook.cells])


# name -> what is done to a notebook: right in the file, whatever was done to it (faults 4, 5 and cheat N)
EDITS: dict[str, Callable[[NotebookNode], NotebookNode]] = {
    **{how.replace(" ", "-"): edit for how, edit in RESTORED.items()},
    "a-gift": quiz_copied,
    "skipped": retagged,
    "hooked": hidden,
}
# name -> what the file holds instead of a notebook (fault 6), and what is said of it
FILES = {
    "empty-file": (lambda whole: "", "is empty"),
    "half": (lambda whole: whole[: len(whole) // 2], "half written"),
    "not-json": (lambda whole: "PK\x03\x04", "not a notebook"),
    "missing": (lambda whole: None, "no notebook was handed in"),
}


@dataclass(frozen=True)
class Expected:
    """The points a student must have (None: whatever they are), and what must be said of them."""

    points: float | None
    said: str = ""
    suspicious: bool = False


def hand_in_class(root: Path, released: NotebookNode) -> dict[str, Expected]:
    """A hundred submissions; what is expected of each."""
    key = dict(chapters.find("SPOT_THE_MISTAKE").key)
    quizzed = changed(released, "SPOT_THE_MISTAKE_solution", source=f"SPOT_THE_MISTAKE = {key!r}")
    right = changed(quizzed, "median_and_iqr_solution", source=RIGHT)
    whole = nbformat.writes(right)
    expected: dict[str, Expected] = {}

    def add(student: str, notebook, expectation: Expected, name: str = "") -> Path:
        expected[student] = expectation
        return hand_in(root, student, notebook, SMALL, name)

    for kind, (code, points, said) in CODE.items():
        suspicious = said.startswith(("died", "timeout"))
        add(kind, changed(quizzed, "median_and_iqr_solution", source=code), Expected(points, said, suspicious))
    for kind, (code, said) in NEEDS_A_SANDBOX.items():
        points = None if TIER == "process" else 2
        add(
            kind,
            changed(quizzed, "median_and_iqr_solution", source=code),
            Expected(points, "" if points is None else said),
        )
    for kind, edit in EDITS.items():
        add(kind, edit(right), Expected(FULL))
    for kind, (content, said) in FILES.items():
        for number in range(2):
            add(f"{kind}-{number}", content(whole), Expected(0, said, suspicious=True))
    for number in range(2):
        add(f"renamed-{number}", right, Expected(FULL), name=f"my homework ({number})")
        beside = add(f"beside-{number}", right, Expected(FULL)).parent
        for name in ("torch.py", "statistics.py"):
            (beside / name).write_text("raise RuntimeError('not the real one')")
        late = add(f"late-{number}", right, Expected(FULL, "late: -5")).parent
        (late / "timestamp.txt").write_text("2026-05-02 12:00:00 UTC")
        written = changed(right, "when_to_trust_a_number", source=f"<img src=x onerror=alert({number})> my words")
        add(f"html-{number}", written, Expected(FULL))
    points = {
        kind: 2 + float(re.search(r"points: (\S+)", code)[1]) for kind, code in HONEST.items() if "points:" in code
    }
    while len(expected) < STUDENTS:
        number = len(expected)
        kind = list(HONEST)[number % len(HONEST)]
        code = HONEST[kind] + (f"\n# {number}" if number % 4 == 0 else "")
        notebook = changed(quizzed, "median_and_iqr_solution", source=code)
        add(
            f"honest-{kind}-{number}", notebook, Expected(points.get(kind, 2), "" if kind in points else "not answered")
        )
    return expected


def autograder(root: Path, *words: str) -> subprocess.CompletedProcess:
    """The command, on a screen wide enough for a line per student."""
    return subprocess.run(
        [sys.executable, "-m", "autograder.cli", "grade", SMALL, "--tier", TIER, *words],
        cwd=root,
        env=os.environ | {"COLUMNS": "400"},
        capture_output=True,
        text=True,
        timeout=900,
    )


def lines_by_student(table: str, students) -> dict[str, str]:
    """The words of each student's row of a printed table."""
    found: dict[str, list[str]] = {}
    whose = None
    for line in table.splitlines():
        first = line.split(" ", 1)[0]
        whose = first if first in students else whose if line.startswith(" ") else None
        if whose:
            found.setdefault(whose, []).append(line)
    return {student: " ".join(" ".join(lines).split()) for student, lines in found.items()}


def due(root: Path) -> None:
    """A due date after which there are no points for an assignment."""
    with open(root / "nbgrader_config.py", "a") as config:
        config.write("c.LateSubmissionPlugin.penalty_method = 'zero'\n")
    with gradebook_of(root) as gradebook:
        gradebook.update_or_create_assignment(SMALL, duedate="2026-05-01 12:00:00")


@dataclass(frozen=True)
class Hundred:
    """A class that has been graded by one command, and once more: what was expected, printed, and reported."""

    root: Path
    expected: dict[str, Expected]
    done: subprocess.CompletedProcess
    again: subprocess.CompletedProcess
    left: list[str]

    @property
    def rows(self) -> dict[str, dict]:
        """What the command reports of each student as JSON."""
        return {row["student"]: row for row in json.loads(self.again.stdout)["students"]}


@pytest.fixture(scope="module")
def hundred(small, tmp_path_factory) -> Hundred:
    root = Path(shutil.copytree(small, tmp_path_factory.mktemp("hundred") / "course"))
    expected = hand_in_class(root, nbformat.read(root / "release" / SMALL / f"{SMALL}.ipynb", 4))
    due(root)
    before = set(psutil.pids())
    done = autograder(root, "--workers", "2", "--all")
    return Hundred(root, expected, done, autograder(root, "--json"), left_behind(before))


def test_a_class_of_a_hundred_is_graded_by_one_command(hundred):
    assert len(hundred.expected) == STUDENTS
    assert hundred.done.returncode == (2 if "could not be graded" in hundred.done.stdout else 1)
    assert "Traceback" not in hundred.done.stderr
    assert list(hundred.rows) == sorted(hundred.expected)
    assert all(row["points"] > 0 or row["reasons"] or row["zeros"] for row in hundred.rows.values())
    with gradebook_of(hundred.root) as gradebook:
        saved = Counter(s.student_id for s in gradebook.assignment_submissions(SMALL))
    graded = {student for student, row in hundred.rows.items() if row["outcome"] != "failed"}
    assert set(saved) == graded and set(saved.values()) == {1}


def test_everybody_in_it_has_the_marks_of_their_work_and_no_others(hundred):
    wrong = {
        student: (row["points"], row["zeros"], row["reasons"])
        for student, row in hundred.rows.items()
        if hundred.expected[student].points not in (None, row["points"])
    }
    assert wrong == {}


def test_honest_students_have_exactly_the_marks_they_have_alone(hundred):
    alone = {}
    for student in (s for s in hundred.expected if s.startswith("honest")):
        kind = student.split("-")[1]
        if kind not in alone:
            notebook = nbformat.read(hundred.root / "submitted" / student / SMALL / f"{SMALL}.ipynb", 4)
            alone[kind] = judge_notebook(cells_of(notebook), chapters.load(SMALL), tier=TIER, measure=False).points
        assert hundred.rows[student]["points"] == alone[kind], student
    assert set(alone) == set(HONEST)


def test_the_summary_names_every_suspicious_submission_and_why(hundred):
    said = lines_by_student(hundred.done.stdout, hundred.expected)
    silent = {s: said.get(s) for s, e in hundred.expected.items() if not re.search(e.said, said.get(s, ""))}
    assert silent == {}
    named = set(lines_by_student(hundred.done.stdout.partition("The others")[0], hundred.expected))
    assert named >= {student for student, e in hundred.expected.items() if e.suspicious}
    assert [student for student in named if hundred.expected[student].points == FULL] == []
    assert [student for student in named if student.startswith("honest")] == []


def test_graded_again_nobody_is_judged_again(hundred):
    summary = json.loads(hundred.again.stdout)
    failed = sum(row["outcome"] == "failed" for row in summary["students"])
    unreadable = 2 * len(FILES)
    assert summary["judged"] <= failed and summary["unchanged"] == STUDENTS - unreadable - summary["judged"]
    assert hundred.again.returncode == summary["status"] == hundred.done.returncode


def test_nothing_of_theirs_runs_in_the_report(hundred):
    page = class_report.write(SMALL, hundred.root).read_text()
    assert [found for found in Active(page).found if found not in ("style", "svg")] == []
    assert "&lt;script&gt;alert(1)" in page


def test_nothing_of_theirs_is_left_running(hundred):
    assert hundred.left == []


def left_behind(before: set[int]) -> list[str]:
    """Processes of this test run that were not there at first: what a submission has left running."""
    ours = ("AUTOGRADER_TESTS", os.environ["AUTOGRADER_TESTS"])
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid not in before and ours in process.environ().items():
                found.append(" ".join(process.cmdline()))
    return found
