"""Three arms really timed: the reference keeps its marks, the slow way earns none, and a failing arm is told apart."""

from __future__ import annotations

from statistics import median

import pytest

from autograder.exercise import Challenge, Exercise, Rung
from autograder.judge import Cell, Judge, measuring, report_html, report_png, report_text
from autograder.judge.measuring import Measurement, Plan, _to_compare_with

pytestmark = [pytest.mark.speed_rule, pytest.mark.alone]


class SumTo(Exercise):
    """The sum 1 + ... + n; the slow way adds one by one, three times."""

    RUNG = "the sum is right"
    name = "sum_to"
    rungs = {RUNG: 2}  # noqa: RUF012
    speed_points = 2
    speed_rung = "faster than adding up three times"
    minimum_ratio = 2.0
    workloads = ({"n": 200_000}, {"n": 800_000}, {"n": 3_200_000})
    timed_seconds = 20

    def challenges(self, rng):
        yield Challenge({"n": int(rng.integers(10, 1000))})

    @staticmethod
    def run(learner, challenge):
        return learner.sum_to(challenge["n"])

    def verify(self, challenge, answer):
        yield Rung(self.RUNG, answer == challenge["n"] * (challenge["n"] + 1) // 2, "not the sum")

    def timed_challenge(self, rng, workload):
        return Challenge({"n": workload["n"] + int(rng.integers(1000))})

    @staticmethod
    def baseline(challenge):
        for _ in range(3):
            total = 0
            for i in range(challenge["n"] + 1):
                total += i
        return total

    def agrees(self, challenge, answer, expected):
        return None if answer == expected else f"{answer} is not the sum up to {challenge['n']}"


class SumToInTwoWays(SumTo):
    """The same where the course has two good ways: its solution, and a slower one."""

    @staticmethod
    def accepted(challenge):
        total = 0
        for i in range(challenge["n"] + 1):
            total += i
        return total


BUILT_IN = "def sum_to(n):\n    return sum(range(n + 1))"
ONCE = "def sum_to(n):\n    total = 0\n    for i in range(n + 1):\n        total += i\n    return total"
THREE_TIMES = f"{ONCE}\nonce = sum_to\ndef sum_to(n):\n    return [once(n) for _ in range(3)][0]"


@pytest.fixture(scope="module")
def verdict_on():
    course: dict[str, str | None] = {}

    def cells(name: str):
        return None if course["reference"] is None else [Cell(course["reference"], "r", 1)]

    def on(source: str, *, reference: str | None = ONCE, exercise: type[Exercise] = SumTo):
        course["reference"] = reference
        return judge.judge(exercise(), [Cell(source, "a", 1)])

    with Judge(reference=cells) as judge:
        yield on


def test_the_reference_earns_everything_and_is_shown_with_a_picture(verdict_on):
    verdict = verdict_on(ONCE)
    assert verdict.points == 4, report_text(verdict)
    assert verdict.speed["measurable"] and verdict.speed["triples"] >= 11
    assert "faster than adding up three times: " in report_text(verdict)
    assert "the speed of the slow way" in " ".join(report_text(verdict).split())
    assert report_png(verdict).startswith(b"\x89PNG") and "data:image/png" in report_html(verdict)


@pytest.mark.parametrize("source", [ONCE, BUILT_IN], ids=["the slower way", "the course's solution"])
def test_whoever_does_what_the_course_accepts_earns_everything(verdict_on, source):
    verdict = verdict_on(source, reference=BUILT_IN, exercise=SumToInTwoWays)
    assert verdict.points == 4 and verdict.review is None, report_text(verdict)
    assert verdict.speed["measurable"] and verdict.speed["reference_ratio"] < 5, "compared with the slower way"


def test_where_several_ways_are_clear_the_slowest_is_compared_with():
    assert _to_compare_with({"reference": 4.0, "accepted": 1.7}) == "accepted"
    assert _to_compare_with({"reference": 1.8, "accepted": 2.5}) == "reference"
    assert _to_compare_with({"reference": 2.5, "accepted": 1.5}) == "reference"
    assert _to_compare_with({"reference": 1.4, "accepted": 1.9}) == "reference"


def test_the_slow_way_handed_in_earns_nothing_for_speed(verdict_on):
    verdict = verdict_on(THREE_TIMES)
    assert verdict.points == 2, report_text(verdict)
    assert "the speed of the slow way" in verdict.rungs[-1].message


def test_without_the_courses_solution_the_speed_is_provisional(verdict_on):
    verdict = verdict_on(ONCE, reference=None)
    assert verdict.points == 4 and verdict.speed["provisional"]
    assert "Provisional: decided on your teacher's machine" in verdict.rungs[-1].message


@pytest.mark.cheats
def test_a_wrong_timed_answer_earns_nothing_for_speed(verdict_on):
    verdict = verdict_on("def sum_to(n):\n    return n * (n + 1) // 2 if n < 1000 else 7")
    assert verdict.points == 2 and "a timed answer was not right" in verdict.rungs[-1].message


@pytest.mark.cheats
def test_remembering_answers_does_not_help_because_every_timed_call_is_new(verdict_on):
    verdict = verdict_on(f"import functools\n{ONCE.replace('def', '@functools.cache' + chr(10) + 'def')}\n{ONCE}")
    assert verdict.points == 4


@pytest.mark.cheats
def test_an_impossible_speed_goes_to_a_person(verdict_on):
    verdict = verdict_on("def sum_to(n):\n    return n * (n + 1) // 2")
    assert verdict.outcome == "review" and verdict.points == 2
    assert "more than the square" in verdict.review


@pytest.mark.cheats
def test_forged_counts_are_contradicted_by_the_clock(verdict_on):
    class Counted(SumTo):
        counted = (SumTo.RUNG,)

    verdict = verdict_on(THREE_TIMES, exercise=Counted)
    assert verdict.outcome == "review" and verdict.points == 2
    assert "takes as long as the slow one" in verdict.review
    assert verdict_on(ONCE, exercise=Counted).outcome == "full"


@pytest.mark.cheats
def test_a_table_kept_to_look_fast_is_seen_from_outside(verdict_on):
    class Lean(SumTo):
        held_bytes = 16 << 20

    table = "import numpy as np\ntable = np.ones(1 << 24)\n"
    verdict = verdict_on(f"{table}{ONCE}".replace("total = 0", "total = 0 * int(table[n % 9])"), exercise=Lean)
    assert verdict.outcome == "review" and verdict.points == 2
    assert "MB more than the course's solution" in verdict.review
    assert verdict_on(ONCE, exercise=Lean).outcome == "full"


class NotSlower(SumTo):
    """The same without a baseline: the course's solution is the yardstick, and only slowness costs."""

    not_slower = True
    baseline = None
    workloads = ({"n": 20_000}, {"n": 1_000_000})


def test_where_only_slowness_costs_an_equal_and_a_faster_solution_earn_all(verdict_on):
    verdict = verdict_on(ONCE, exercise=NotSlower)
    assert verdict.points == 4, report_text(verdict)
    assert verdict.speed["workload"] == {"n": 1_000_000}, "the first of which one call makes a block"
    assert verdict.speed["against"] == "the course's solution" and verdict.speed["seconds"]["reference"][0] is None
    told = " ".join(report_text(verdict).split())
    assert "x the speed of the course's solution. Full marks start at 0.77x." in told
    assert report_png(verdict).startswith(b"\x89PNG") and "the slow way" not in report_html(verdict)
    quick = verdict_on("def sum_to(n):\n    return n * (n + 1) // 2", exercise=NotSlower)
    assert quick.points == 4 and quick.review is None, "there is nothing to win by being quick"


def test_where_only_slowness_costs_a_slow_solution_loses_the_speed_points(verdict_on):
    verdict = verdict_on(THREE_TIMES, exercise=NotSlower)
    assert verdict.points == 2, report_text(verdict)
    assert "0.3" in verdict.rungs[-1].message and "Full marks start at" in verdict.rungs[-1].message


@pytest.mark.cheats
def test_where_only_slowness_costs_answers_are_compared_as_well(verdict_on):
    verdict = verdict_on("def sum_to(n):\n    return n * (n + 1) // 2 if n < 1000 else 7", exercise=NotSlower)
    assert verdict.points == 2 and "a timed answer was not right" in verdict.rungs[-1].message


@pytest.mark.cheats
def test_where_only_slowness_costs_memory_is_compared_with_the_courses(verdict_on):
    class Lean(NotSlower):
        held_bytes = 16 << 20

    table = "import numpy as np\ntable = np.ones(1 << 24)\n"
    verdict = verdict_on(f"{table}{ONCE}".replace("total = 0", "total = 0 * int(table[n % 9])"), exercise=Lean)
    assert verdict.outcome == "review" and verdict.points == 2
    assert "MB more than the course's solution" in verdict.review


def test_without_the_courses_solution_slowness_is_shown_and_not_judged(verdict_on):
    verdict = verdict_on(THREE_TIMES, exercise=NotSlower, reference=None)
    assert verdict.points == 4 and verdict.speed["provisional"] and verdict.speed["measurable"] is False
    assert "ms here" in verdict.rungs[-1].message and "decided on your teacher's machine" in verdict.rungs[-1].message
    assert "  ?     a call takes you" in report_text(verdict) and report_png(verdict) is None
    wrong = verdict_on("def sum_to(n):\n    return 0", exercise=NotSlower, reference=None)
    assert wrong.points == 0, "what is not judged follows the counted work"


def test_the_node_tier_measures_only_on_a_machine_that_is_left_alone(monkeypatch):
    monkeypatch.setattr("autograder.judge.judging.QUIET_SECONDS", 0)
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: 57.0)
    with Judge(tier="node", reference=lambda name: [Cell(ONCE, "r", 1)]) as judge:
        verdict = judge.judge(SumTo(), [Cell(ONCE, "a", 1)])
    assert (verdict.outcome, verdict.points, verdict.tier) == ("review", 2, "node")
    assert "57% busy" in verdict.review


@pytest.mark.faults
def test_a_learner_who_dies_in_a_timed_call_keeps_the_rest(verdict_on):
    source = "import os\n" + ONCE.replace("total = 0", "total = 0 if n < 2000 else os._exit(1)")
    verdict = verdict_on(source)
    assert verdict.points == 2 and "did not come back from a timed call" in verdict.rungs[-1].message


@pytest.mark.faults
def test_all_timed_calls_together_have_a_limit_as_well(verdict_on, monkeypatch):
    monkeypatch.setattr(SumTo, "timed_seconds", 5)
    source = "import time\n" + ONCE.replace("total = 0", "time.sleep(2 * (n > 2000)); total = 0")
    verdict = verdict_on(source)
    assert verdict.points == 2 and "or all of them within 10 s" in verdict.rungs[-1].message


@pytest.mark.faults
def test_a_failing_reference_is_nobodys_fault_and_goes_to_a_person(verdict_on):
    verdict = verdict_on(ONCE, reference="def sum_to(n):\n    raise OSError('gone')")
    assert verdict.outcome == "review" and verdict.points == 2
    assert "the course's reference raised OSError: gone" in verdict.review


def test_a_reference_that_is_fast_in_the_probes_alone_decides_nothing(verdict_on, monkeypatch):
    monkeypatch.setattr(measuring, "PROBE_SECONDS", 0)  # as few probes on a fast machine as on a slow one
    soon_tired = f"calls = []\n{THREE_TIMES}\nthree_times = sum_to\ndef sum_to(n):\n    calls.append(n)\n"
    soon_tired += "    return once(n) if len(calls) < 9 else three_times(n)"
    for source in (ONCE, THREE_TIMES):
        verdict = verdict_on(source, reference=soon_tired)
        assert verdict.points == 4 and verdict.speed["measurable"] is False, report_text(verdict)
        assert verdict.speed["reached"] < 1.3 and "too little to tell anybody apart" in verdict.rungs[-1].message


def test_where_nothing_is_fast_enough_the_speed_points_follow_the_counted_work(verdict_on):
    class Even(SumTo):
        @staticmethod
        def baseline(challenge):
            return challenge["n"] * (challenge["n"] + 1) // 2

    verdict = verdict_on(ONCE, exercise=Even)
    assert verdict.points == 4 and verdict.speed["measurable"] is False
    assert "not measurable on this machine" in verdict.rungs[-1].message
    assert "  ?     speed was not measurable" in report_text(verdict)
    assert verdict_on("def sum_to(n):\n    return 0", exercise=Even).points == 0


def test_the_other_side_is_still_while_one_is_timed(monkeypatch, verdict_on):
    import psutil

    states = []
    answer = Measurement._answer

    def watched(self, name, challenge):
        others = [arm.worker.pid for other, arm in self._arms.items() if other != name]
        states.extend(psutil.Process(pid).status() for pid in others)
        return answer(self, name, challenge)

    monkeypatch.setattr(Measurement, "_answer", watched)
    verdict_on(ONCE)
    assert states and set(states) == {psutil.STATUS_STOPPED}


def test_a_busy_machine_has_blocks_as_long_as_a_triple_allows_and_a_quiet_one_a_few_calls():
    quiet = Plan.of({}, {"baseline": [0.028] * 4, "reference": [0.01] * 4})
    busy = Plan.of({}, {"baseline": [0.09, 0.028, 0.2], "reference": [0.05, 0.04, 0.01]})
    assert quiet == Plan({}, 6, 12) and busy == Plan({}, 12, 12)


def test_every_look_that_decides_nothing_makes_the_blocks_longer_as_far_as_a_triple_allows():
    assert [Plan({}, 3, 8).calls_in(i) for i in (0, 10, 11, 20, 21, 40)] == [3, 3, 6, 6, 8, 8]
    assert Plan({}, 3, 2).calls_in(21) == 3, "never shorter than a block"


def test_blocks_of_all_lengths_are_told_in_the_seconds_of_the_first(monkeypatch, verdict_on):
    monkeypatch.setattr("autograder.judge.speed.WINS", {2: 9, 4: 9, 6: 9})  # more wins than there are triples
    verdict = verdict_on(ONCE)
    assert verdict.speed["triples"] == 6 and verdict.speed["noisy"]
    first, last = (median(verdict.speed["seconds"]["baseline"][part]) for part in (slice(2), slice(4, 6)))
    assert last < 2 * first, "a block four times as long"
