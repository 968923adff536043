"""The judge on small exercises of its own: what learners' code may do, and what it then gets."""

from __future__ import annotations

import math
import time

import numpy as np
import psutil
import pytest

from autograder import chapters
from autograder.exercise import Challenge, Exercise, Foreign, Raised, Rung, close, describe, number
from autograder.judge import Cell, Judge, TierError, report_html, report_text
from autograder.judge.process import BenchError


class Double(Exercise):
    """Twice a number."""

    SMALL, LARGE, SAYS = "small numbers are doubled", "large numbers are doubled", "text is a TypeError"
    name = "double"
    rungs = {SMALL: 2, LARGE: 1, SAYS: 1}  # noqa: RUF012
    seconds = 4

    def challenges(self, rng):
        yield Challenge({"x": float(rng.uniform(1, 9))}, decides=(self.SMALL,))
        yield Challenge({"x": float(rng.uniform(1e6, 9e6))}, decides=(self.LARGE,))
        yield Challenge({"x": "two"}, decides=(self.SAYS,), may_raise=True)

    @staticmethod
    def run(learner, challenge):
        return learner.double(challenge["x"])

    def verify(self, challenge, answer):
        if challenge["x"] == "two":
            yield Rung(self.SAYS, isinstance(answer, Raised) and answer.kind == "TypeError", "text went through")
            return
        right = close(answer, 2 * challenge["x"])
        yield Rung(challenge.decides[0], right, f"{describe(answer)} is not twice {challenge['x']:.4g}")


class Ask(Exercise):
    """Calls that stay with the judge."""

    RUNG = "asked twice, in order"
    name = "ask"
    rungs = {RUNG: 1}  # noqa: RUF012

    def challenges(self, rng):
        yield Challenge({}, calls={"add": lambda a, b: a + b, "fail": lambda: 1 / 0})

    @staticmethod
    def run(learner, challenge):
        return learner.ask(challenge["add"], challenge["fail"])

    def verify(self, challenge, answer):
        asked = [(name, args) for name, args, _ in challenge.log]
        yield Rung(self.RUNG, answer == 6 and asked == [("add", (1, 2)), ("add", (3, 3))], f"{asked} {answer}")


class Pick(Exercise):
    """A quiz."""

    name = "PICK"
    quiz_points = 2
    key = {"a": ("up", "down"), "b": ("same", "same")}  # noqa: RUF012
    allowed = ("up", "down", "same")


RIGHT = "def double(x):\n    if isinstance(x, str):\n        raise TypeError('no text')\n    return 2 * x"


@pytest.fixture(scope="module")
def judge():
    with Judge() as judge:
        yield judge


def verdict_on(judge: Judge, *sources: str, exercise: type[Exercise] = Double):
    return judge.judge(exercise(), [Cell(source, f"c{i}", i) for i, source in enumerate(sources, 1)])


def test_a_right_answer_earns_everything_and_the_report_says_what_was_checked(judge):
    verdict = verdict_on(judge, RIGHT)
    assert (verdict.points, verdict.outcome) == (4, "full")
    assert "small numbers are doubled" in report_text(verdict)


def test_each_challenge_decides_its_own_rungs(judge):
    verdict = verdict_on(judge, RIGHT.replace("2 * x", "2 * x if x < 100 else 1 / 0"))
    assert (verdict.points, verdict.outcome) == (3, "partial")
    assert "ZeroDivisionError" in report_text(verdict) and "It was given x: " in report_text(verdict)
    (failed,) = [r for r in verdict.rungs if not r.ok]
    assert "ZeroDivisionError" in failed.message and "cell 1, line 4 in double" in failed.message


def test_the_stub_is_not_answered_yet(judge):
    verdict = verdict_on(judge, "def double(x):\n    raise NotImplementedError()")
    assert (verdict.points, verdict.outcome, verdict.note) == (0, "untouched", "not answered yet")


DEATHS = {
    "import os\ndef double(x): os._exit(3)": ("died", "exit status 3"),
    "import os, signal\ndef double(x): os.kill(os.getpid(), signal.SIGKILL)": ("died", "killed"),
    "import ctypes\ndef double(x): ctypes.string_at(0)": ("died", "segmentation fault"),
    "import os\nos._exit(0)\ndef double(x): return 2 * x\nx = os._exit(0)": ("none", None),
    "def double(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass": (
        "timeout",
        "4 s",
    ),
    "import os\ndef double(x):\n    for fd in range(3, 99):\n        try: os.close(fd)\n        except OSError: pass": (
        "died",
        "ended",
    ),
}


@pytest.mark.faults
@pytest.mark.parametrize("source", DEATHS)
def test_a_death_or_a_hang_is_a_zero_with_a_reason_and_the_next_one_is_untouched(judge, source):
    outcome, reason = DEATHS[source]
    started = time.monotonic()
    verdict = verdict_on(judge, source)
    assert time.monotonic() - started < 20
    if reason is not None:
        assert (verdict.points, verdict.outcome) == (0, outcome)
        assert reason in verdict.note
    assert verdict_on(judge, RIGHT).points == 4


@pytest.mark.faults
@pytest.mark.parametrize("source", ["def double(x): raise SystemExit", "def double(x): quit()"])
def test_an_exit_is_named(judge, source):
    verdict = verdict_on(judge, source)
    assert verdict.points == 0
    assert any("ended itself" in r.message or "NameError" in r.message for r in verdict.rungs)


@pytest.mark.faults
def test_memory_is_bounded_and_a_flood_of_output_goes_nowhere(judge):
    verdict = verdict_on(judge, "def double(x): return bytearray(1 << 36)")
    assert verdict.points == 0 and "MemoryError" in verdict.rungs[0].message
    assert verdict_on(
        judge, "import sys\n" + RIGHT + "\nsys.stderr.write('x' * 10**6)\nnoise = print('y' * 10**7)"
    ).full


@pytest.mark.faults
def test_a_process_left_running_is_ended_with_its_exercise(judge):
    source = (
        "import os, time\ndef double(x):\n    if os.fork() == 0:\n        os.setsid()\n        if os.fork() == 0:\n"
        "            time.sleep(600)\n        os._exit(0)\n    return 2 * x"
    )
    verdict_on(judge, source)
    (bench,) = psutil.Process().children()
    assert bench.children(recursive=True) == []


ODD = {
    "np.float64(2 * x)": True,
    "torch.tensor(2 * x, dtype=torch.float64)": True,
    "torch.tensor(2 * x, dtype=torch.float64, requires_grad=True)": True,
    "True": False,
    "float('nan')": False,
    "float('inf')": False,
    "-2 * x": False,
    "10 ** 400": False,
    "(y for y in [x])": False,
    "None": False,
    "'12'": False,
    "[2 * x]": False,
    "{2 * x}": False,
}


@pytest.mark.faults
@pytest.mark.parametrize("expression", ODD)
def test_results_of_the_wrong_kind_are_named_and_near_ones_accepted(judge, expression):
    source = "import numpy as np, torch\ndef double(x):\n    if isinstance(x, str): raise TypeError\n"
    source += f"    return {expression}"
    verdict = verdict_on(judge, source)
    assert verdict.points == (4 if ODD[expression] else 1), report_text(verdict)


def test_named_calls_are_served_and_logged_by_the_judge(judge):
    assert (
        verdict_on(judge, "def ask(add, fail):\n    return add(3, b=3) if add(1, 2) == 3 else 0", exercise=Ask).points
        == 0
    )
    assert (
        verdict_on(judge, "def ask(add, fail):\n    return add(3, 3) if add(1, 2) == 3 else 0", exercise=Ask).points
        == 1
    )
    verdict = verdict_on(judge, "def ask(add, fail):\n    return fail()", exercise=Ask)
    assert "division by zero" in verdict.rungs[0].message


class Again(Double):
    """The same number in two processes."""

    AGAIN = "another process agrees"
    rungs = {AGAIN: 1}  # noqa: RUF012

    def challenges(self, rng):
        first = Challenge({"x": 3.0})
        yield first
        yield Challenge({"x": 3.0}, after=first)

    def verify(self, challenge, answer):
        yield Rung(self.AGAIN, challenge.after is None or challenge.after.answer == answer, "another answer came")


PLACES = {  # what a process alone knows
    "import os\ndef double(x):\n    return os.getpid()": 0,
    "calls = []\ndef double(x):\n    calls.append(x)\n    return len(calls)": 1,
    "def double(x):\n    return hash('text')": 0,
    "name_of = hash\ndef double(x):\n    return name_of((x, frozenset({b'bytes'})))": 0,
    "def double(x):\n    return hash((x, 7))": 1,
}


@pytest.mark.parametrize("source", PLACES)
def test_a_challenge_after_another_meets_a_new_process_with_another_salt(judge, source):
    assert judge.judge(Again(), [Cell(source, "double", 1)]).points == PLACES[source]


def test_numbers_that_all_collide_are_not_put_into_a_set():
    class Colliding(int):
        __hash__ = None

    exercise = chapters.find("block_hashes")
    challenge = next(iter(exercise.challenges(np.random.default_rng(0))))
    names = {name: [Colliding(i) for i in range(len(t) // block)] for name, (t, block) in challenge["texts"].items()}
    first, *_ = exercise.verify(challenge, names)
    assert not first.ok and "a hash is bytes" in first.message


def test_a_check_that_fails_itself_goes_to_a_person(judge, monkeypatch):
    monkeypatch.setattr(Double, "verify", lambda self, challenge, answer: [1 / 0])
    verdict = verdict_on(judge, RIGHT)
    assert verdict.outcome == "review" and "ZeroDivisionError" in verdict.review and verdict.points == 0


def test_a_course_that_cannot_be_run_gives_nobody_a_mark(judge):
    class Broken(Double):
        run = staticmethod(lambda learner, challenge: learner.double(challenge["x"]))  # no `def` to send

    with pytest.raises(BenchError, match="course's own"):
        verdict_on(judge, RIGHT, exercise=Broken)
    assert verdict_on(judge, RIGHT).full


def test_a_name_nobody_defines_and_a_cell_that_is_not_python(judge):
    assert verdict_on(judge, "x = 1").note == "no cell defines `double`"
    assert "cell 1 is not Python yet" in verdict_on(judge, "def double(x) return 2 * x").note


def test_the_bench_cannot_import_what_lies_beside_the_notebook(judge, tmp_path, monkeypatch):
    (tmp_path / "statistics.py").write_text("raise SystemError")
    monkeypatch.chdir(tmp_path)
    with Judge() as here:
        assert verdict_on(here, "import statistics\n" + RIGHT + "\nused = statistics").full


QUIZ = {
    "PICK = {'a': ('up', 'down'), 'b': ('same', 'same')}": (2, "4 of 4"),
    "PICK = {'a': ('up', 'up'), 'b': ('same', 'same')}": (1, "3 of 4"),
    "PICK = {'a': ('same', 'same'), 'b': ('same', 'same')}": (0, "2 of 4"),  # one value everywhere
    "PICK = {'a': (None, None), 'b': (None, None)}": (0, "not answered"),
    "PICK = {'a': ('sideways', 'down')}": (0, "'sideways' is not one of"),
    "PICK = dict(a=('up', 'down'))": (0, "plain dict"),
    "PICK = [open('/etc/passwd')]": (0, "plain dict"),
    "x = 1": (0, "no cell assigns"),
    "PICK = 3": (0, "must be a dict"),
    "PICK = {'a': ([], {}), 'b': 'same'}": (0, "not one of"),
}


@pytest.mark.parametrize("source", QUIZ)
def test_a_quiz_tells_only_how_many_are_right(judge, source):
    points, note = QUIZ[source]
    verdict = verdict_on(judge, source, exercise=Pick)
    assert verdict.points == points and note in verdict.note


def test_a_tier_that_cannot_be_had_is_refused():
    with pytest.raises(TierError, match="no tier 'castle'"):
        Judge(tier="castle")


def test_html_of_a_learner_is_shown_and_not_run(judge):
    verdict = verdict_on(judge, "def double(x): raise ValueError('<script>alert(1)</script>\\x1b[2J')")
    assert "<script>" not in report_html(verdict) and "&lt;script&gt;" in report_html(verdict)
    assert "\x1b" not in report_text(verdict)


def test_where_forking_is_not_safe_a_worker_is_a_new_interpreter(monkeypatch):
    monkeypatch.setattr("autograder.judge.process.FORK_IS_SAFE", False)
    with Judge() as judge:
        assert verdict_on(judge, RIGHT).points == 4


def test_nothing_is_left_when_the_judge_closes():
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    with Judge() as judge:
        verdict_on(judge, RIGHT)
    assert {p.pid for p in psutil.Process().children(recursive=True)} <= before


def test_what_counts_as_a_number():
    import numpy as np
    import torch

    assert [number(v) for v in (1, 1.5, np.float32(2), torch.tensor(3))] == [1, 1.5, 2, 3]
    assert [number(v) for v in (True, np.bool_(True), None, "1", [1], torch.tensor([1.0]), Foreign("x"))] == [None] * 7
    assert not close(math.nan, math.nan) and describe(Foreign("set")) == "a set"
