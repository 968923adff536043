"""Timing the three arms: the course's baseline, its reference, and the learner, one at a time on a still machine.

Where being no slower than the reference is asked for, the reference stands in the baseline's place, and there are two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from autograder.exercise import Challenge, Exercise, Raised
from autograder.judge import speed
from autograder.judge.process import Bench, Died, TimedOut, Worker
from autograder.judge.slicing import Slice

BLOCK_SECONDS = 0.030
TRIPLE_SECONDS = 0.6
WANTED_RATIO, LEAST_RATIO = 2.0, 1.6  # of the reference over the baseline, by the probes
WORTHLESS_RATIO = 1.3  # of the same, once measured: below it the rule could not tell one from the other
PROBES, PROBE_SECONDS = 3, 0.3  # of a workload: at least so many calls of each arm, and more while there is time
FEW_CALLS, CALM = 6, 1.25  # calls that make a block; how much longer than the quickest a usual call is in quiet
FIRST_CALL_FACTOR = 3.0
FLOOR_FACTOR = 0.8
MOST_BUDGETS = 2  # of one call (`timed_seconds`), for all of the learner's timed calls together


@dataclass
class Arm:
    """One of the three sides: its worker, how to run it, how to keep it still, every timed call's seconds."""

    worker: Worker
    function: str
    with_learner: bool
    stop: Callable[[], None]
    go_on: Callable[[], None]
    calls: list[float] = field(default_factory=list)

    def answer(self, challenge: Challenge, seconds: float):
        """(answer, seconds) of one call on the judge's clock."""
        started = time.monotonic()
        answer = self.worker.run(self.function, challenge, started + seconds, with_learner=self.with_learner)
        return answer, time.monotonic() - started


class CourseFailed(Exception):
    """The course's own baseline or solution did not come back: nobody's marks may hang on that."""


class Wrong(Exception):
    """A timed answer that is not right; the message is for the learner."""


@dataclass(frozen=True)
class Plan:
    """What is timed: a workload, how many calls make a block, and how many fit into the longest triple."""

    workload: dict
    calls: int
    most_calls: int

    @classmethod
    def of(cls, workload: dict, seconds: dict[str, list[float]]) -> Plan:
        """From probes of the course's arms: by the quickest calls, as others make a busy machine's look longer.

        Where calls differ a lot, and where few of them would do, blocks are as long as a triple allows, or have a few
        calls more: one call that was interrupted must not decide a block.
        """
        calls = seconds.get("reference", seconds["baseline"])
        base, reference = min(seconds["baseline"]), min(calls)
        least, most = math.ceil(BLOCK_SECONDS / reference), int(TRIPLE_SECONDS / (base + 2 * reference))
        wanted = most if median(calls) > CALM * reference else min(most, FEW_CALLS)
        return cls(workload, max(least, wanted), most)

    def calls_in(self, i: int) -> int:
        """Calls in a block of the i-th triple: twice as many after every look that decided nothing."""
        return min(self.calls << sum(i >= looks for looks in speed.WINS), max(self.calls, self.most_calls))


class Measurement:
    """The measurement of one exercise for one learner. `run` does everything; `close` ends the workers."""

    def __init__(
        self,
        exercise: Exercise,
        learner: Slice,
        reference: Slice | None,
        benches: tuple[Bench, Bench],
        rng,
        *,
        bandwidth: float | None,
        progress: Callable[[str, float], None],
    ) -> None:
        self._exercise = exercise
        self._rng = rng
        self._bandwidth = bandwidth
        self._progress = progress
        self._learner_slice = learner
        self._benches = benches
        self._arms: dict[str, Arm] = {}
        self._fastest = 1.0  # the log-speedup of the course's fastest way over the reference's
        self._left = MOST_BUDGETS * exercise.timed_seconds  # for the learner's calls that are still to come
        try:
            if not exercise.not_slower:
                self._arms["baseline"] = self._course_arm(benches[1], exercise.baseline)
            if reference is not None:
                name = "baseline" if exercise.not_slower else "reference"
                self._arms[name] = self._course_arm(benches[1], _timed_run(exercise), reference)
            if reference is not None and exercise.accepted is not None:
                self._arms["accepted"] = self._course_arm(benches[1], exercise.accepted)
        except (Died, TimedOut) as problem:
            raise CourseFailed(f"the course's own processes did not start: {problem}") from None

    def _course_arm(self, bench: Bench, function: Callable, reference: Slice | None = None) -> Arm:
        exercise = self._exercise
        worker = bench.worker(memory_bytes=exercise.memory_bytes)
        deadline = time.monotonic() + exercise.timed_seconds
        worker.define("timed", function, deadline)
        if reference is not None:
            worker.load(reference.cells, reference.keep, reference.flags, exercise.names, deadline)
        return Arm(worker, "timed", reference is not None, worker.stop_one, worker.go_on_one)

    def _learner_arm(self) -> Arm:
        bench, part = self._benches[0], self._learner_slice
        worker = bench.worker(memory_bytes=self._exercise.memory_bytes)
        deadline = time.monotonic() + self._exercise.seconds
        worker.define("timed", _timed_run(self._exercise), deadline)
        worker.load(part.cells, part.keep, part.flags, self._exercise.names, deadline)
        return Arm(worker, "timed", True, bench.stop, bench.go_on)

    def run(self) -> tuple[speed.Decision | None, dict]:
        """(decision or None where it cannot be measured here, facts for the report).

        Raises Wrong when a timed answer is not right, Died or TimedOut when the learner's process does not answer,
        CourseFailed when one of the course's own does not.
        """
        if not self._arms:
            return None, self._shown()
        self._progress("choosing a workload for this machine", 0.0)
        self._benches[0].stop()
        try:
            plan, facts = self._calibrate()
        finally:
            self._benches[0].go_on()
        if plan is None:
            return None, facts
        for again in (False, True):
            decision = self._decide(plan)
            slow_first = self._first_call_is_odd()
            if not slow_first or again:
                break
            self._end("learner")
        measured = facts | {"workload": plan.workload, "calls_per_block": plan.calls}
        if decision.reference_ratio is not None and decision.reference_ratio < WORTHLESS_RATIO:
            return None, measured | {"reached": decision.reference_ratio}  # less than the probes had promised
        return self._doubted(decision, plan, slow_first), measured

    def _shown(self) -> dict:
        """Facts where there is nothing to compare the learner with: how long a call takes them, in seconds."""
        workload = self._exercise.workloads[0]
        self._arms["learner"], taken = self._learner_arm(), []
        for _ in range(1 + PROBES):
            challenge = self._exercise.timed_challenge(self._rng, workload)
            answer, seconds = self._alone("learner", challenge)
            if isinstance(answer, Raised):
                raise Wrong(_what_it_raised(answer))
            taken.append(seconds)
        return {"provisional": True, "workload": workload, "shown": median(taken[1:])}

    def close(self) -> None:
        """End every worker."""
        for name in list(self._arms):
            self._end(name)

    def _end(self, name: str) -> None:
        arm = self._arms.pop(name)
        arm.go_on()  # a side that is kept still could not say how its worker ended
        arm.worker.close()

    def _calibrate(self) -> tuple[Plan | None, dict]:
        """The smallest workload with a clear difference, or the clearest one that is clear enough."""
        exercise = self._exercise
        if exercise.not_slower:
            return self._long_enough(), {"provisional": False}
        if "reference" not in self._arms:
            workload = exercise.workloads[0]
            return Plan.of(workload, self._probe(workload)), {"provisional": True}
        tried, best = [], None
        for workload in exercise.workloads:
            seconds = self._probe(workload)
            baseline = seconds.pop("baseline")
            base = median(baseline)
            ratios = {name: base / median(calls) for name, calls in seconds.items()}
            name = _to_compare_with(ratios)
            plan = Plan.of(workload, {"baseline": baseline, "reference": seconds[name]})
            tried.append({"workload": workload, "baseline": base, "reference": base / ratios[name]})
            if plan.calls > plan.most_calls:
                break  # a larger one takes longer still
            if best is None or ratios[name] > best[0]:
                best = (ratios[name], plan, name, max(ratios.values()))
            if ratios[name] >= WANTED_RATIO:
                break
        if best is None or best[0] < LEAST_RATIO:
            return None, {"provisional": False, "tried": tried}
        ratio, plan, name, largest = best
        self._fastest = math.log(largest) / math.log(ratio)
        for other in ratios.keys() - {name}:
            self._end(other)
        self._arms["reference"] = self._arms.pop(name)
        return plan, {"provisional": False}

    def _long_enough(self) -> Plan:
        """The smallest workload of which one call makes a block: the less of its time is the round trip's."""
        plan = None
        for workload in self._exercise.workloads:
            seconds = self._probe(workload)
            larger = Plan.of(workload, seconds)
            if plan is not None and larger.calls > larger.most_calls:
                break
            plan = larger
            if min(seconds["baseline"]) >= BLOCK_SECONDS:
                break
        return plan

    def _probe(self, workload: dict) -> dict[str, list[float]]:
        """Seconds of each call of each of the course's arms, the first left out: more calls where they are short."""
        times: dict[str, list[float]] = {name: [] for name in self._arms}
        warm, until = False, time.monotonic() + PROBE_SECONDS
        while len(times["baseline"]) < PROBES or time.monotonic() < until:
            challenge = self._exercise.timed_challenge(self._rng, workload)
            for name in self._arms:
                _, seconds = self._alone(name, challenge)
                if warm:
                    times[name].append(seconds)
            if warm and min(times["baseline"]) > TRIPLE_SECONDS:
                break  # too large for this machine, whatever the other probes say
            warm = True
        return times

    def _decide(self, plan: Plan) -> speed.Decision:
        self._arms["learner"] = self._learner_arm()
        self._warm_up(plan)
        for arm in self._arms.values():
            arm.calls.clear()
        last = max(speed.WINS)

        def triple(i: int) -> speed.Triple:
            self._progress(f"measuring: comparison {i + 1} of at most {last}", i / last)
            return self._triple(plan, plan.calls_in(i))

        if self._exercise.not_slower:
            return speed.not_slower(triple)
        return speed.decide(triple, minimum_ratio=self._exercise.minimum_ratio, fastest=self._fastest)

    def _warm_up(self, plan: Plan) -> None:
        challenge = self._exercise.timed_challenge(self._rng, plan.workload)
        answers = {name: self._alone(name, challenge)[0] for name in self._arms}
        self._check(challenge, answers)

    def _triple(self, plan: Plan, calls: int) -> speed.Triple:
        """One block of so many calls of each arm; its seconds are those of a block of `plan.calls`."""
        challenges = [self._exercise.timed_challenge(self._rng, plan.workload) for _ in range(calls)]
        order = [list(self._arms)[i] for i in self._rng.permutation(len(self._arms))]
        blocks: dict[str, float] = {}
        answers: dict[str, list] = {}
        for name in order:
            arm = self._arms[name]
            self._only(name)
            timed = [self._answer(name, challenge) for challenge in challenges]
            arm.calls.extend(seconds for _, seconds in timed)
            blocks[name] = plan.calls * fmean(seconds for _, seconds in timed)
            answers[name] = [answer for answer, _ in timed]
        for i, challenge in enumerate(challenges):
            self._check(challenge, {name: given[i] for name, given in answers.items()})
        return speed.Triple(blocks["baseline"], blocks["learner"], blocks.get("reference"))

    def _alone(self, name: str, challenge: Challenge):
        self._only(name)
        return self._answer(name, challenge)

    def _answer(self, name: str, challenge: Challenge):
        """(answer, seconds) of one side. Raises CourseFailed, or Died and TimedOut when it is the learner's."""
        budget = self._exercise.timed_seconds if name != "learner" else min(self._exercise.timed_seconds, self._left)
        try:
            answer, seconds = self._arms[name].answer(challenge, budget)
        except (Died, TimedOut) as problem:
            if name == "learner":
                raise
            raise CourseFailed(f"the course's {name} did not come back: {problem}") from None
        if name == "learner":
            self._left -= seconds
        elif isinstance(answer, Raised):
            raise CourseFailed(f"the course's {name} raised {answer}")
        return answer, seconds

    def _only(self, name: str) -> None:
        """Keep every other side still."""
        for other, arm in self._arms.items():
            if other != name:
                arm.stop()
        self._arms[name].go_on()

    def _check(self, challenge: Challenge, answers: dict) -> None:
        answer, expected = answers["learner"], answers["baseline"]
        if isinstance(answer, Raised):
            raise Wrong(_what_it_raised(answer))
        problem = self._exercise.agrees(challenge, answer, expected)
        if problem:
            raise Wrong(problem)

    def _first_call_is_odd(self) -> bool:
        """The learner's first timed call is far slower than its others, on a machine that stalled nowhere else."""
        first, *rest = self._arms["learner"].calls
        if not rest or first <= FIRST_CALL_FACTOR * median(rest):
            return False
        others = [rest] + [arm.calls for name, arm in self._arms.items() if name != "learner"]
        return not any(max(calls) > FIRST_CALL_FACTOR * median(calls) for calls in others)

    def _doubted(self, decision: speed.Decision, plan: Plan, slow_first: bool) -> speed.Decision:
        """The decision, or no share and a reason to look where the times cannot be honest work."""
        reason = decision.review
        least = self._exercise.bytes_moved(plan.workload) / self._bandwidth if self._bandwidth else 0.0
        fastest = median(self._arms["learner"].calls)
        if slow_first:
            reason = "the first timed call took more than three times as long as the others"
        elif fastest < FLOOR_FACTOR * least:
            reason = f"{fastest * 1e3:.2f} ms is less than reading the bytes takes here ({least * 1e3:.2f} ms)"
        elif more := self._held_beyond_allowance():
            reason = f"after the timed calls it holds {more / 1e6:.0f} MB more than the course's solution does"
        if reason is None:
            return decision
        return replace(decision, share=0.0, review=reason)

    def _held_beyond_allowance(self) -> int:
        """Bytes of memory that the learner's process holds beyond the reference's; 0 when that is allowed."""
        course = self._arms.get("baseline" if self._exercise.not_slower else "reference")
        if self._exercise.held_bytes is None or course is None:
            return 0
        more = self._arms["learner"].worker.memory_bytes() - course.worker.memory_bytes()
        return more if more > self._exercise.held_bytes else 0


def _what_it_raised(answer: Raised) -> str:
    return f"your code raised {answer}" + "".join(f"\n{frame}" for frame in answer.frames)


def _to_compare_with(ratios: dict[str, float]) -> str:
    """Of the course's ways, by their speedups, the slowest that is clearly one: each of them must earn full marks."""
    clear = {name: ratio for name, ratio in ratios.items() if ratio >= LEAST_RATIO}
    if "reference" not in clear:  # the course's own solution would lose marks beside another way
        return "reference"
    return min(clear, key=clear.get)


def _timed_run(exercise: Exercise) -> Callable:
    return exercise.timed_run or exercise.run
