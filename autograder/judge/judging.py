"""From a learner's cells to a verdict, one exercise at a time. Chapters are handed in; none is imported here."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import psutil

from autograder import lab
from autograder.exercise import LIBRARIES, Challenge, Chapter, Exercise, Raised, Rung, describe, number
from autograder.judge import sandbox
from autograder.judge.measuring import MOST_BUDGETS, CourseFailed, Measurement, Wrong
from autograder.judge.notebook import Cell
from autograder.judge.process import Bench, Died, Failure, Loaded, TimedOut, Worker
from autograder.judge.slicing import Slice, last_literal, slice_for
from autograder.judge.verdict import Report, RungResult, Verdict
from autograder.lab import LabError

TIERS = ("process", "sandbox", "node")
MAX_TEXT = 2000  # characters of one message
MOST_INPUTS = 3  # of a challenge, for a message to name them
QUIET_PERCENT, QUIET_SECONDS = 10, 60  # at the node tier: how idle the machine must be, and how long that may take
UNMEASURED = "speed was not measured"

Reference = Callable[[str], Sequence[Cell] | None]
Progress = Callable[[str, float], None]


class TierError(LabError):
    """The isolation asked for is not to be had here; one sentence."""


@dataclass
class Ladder:
    """The rungs of one exercise while its challenges are judged."""

    worth: dict[str, float]
    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, rung: Rung) -> None:
        if rung.name not in self.worth:
            raise KeyError(f"rung {rung.name!r} is not one of the exercise's")
        if rung.ok:
            self.passed.add(rung.name)
        else:
            self.failed.setdefault(rung.name, rung.message)

    def fail(self, names: Sequence[str], message: str) -> None:
        for name in names:
            self.failed.setdefault(name, message)

    def results(self) -> list[RungResult]:
        """One result per rung. The same message is told once."""
        told: set[str] = set()
        results = []
        for name, points in self.worth.items():
            message = self.failed.get(name, "" if name in self.passed else "not reached")
            ok = name in self.passed and name not in self.failed
            shown = "" if ok else "as above" if message in told and message else message
            told.add(message)
            results.append(RungResult(name, ok, points, shown))
        return results


class Judge:
    """Judges exercises for one submission: one bench for the learner, one for the course when speed is measured.

    tier:      how the learner's code is kept apart; raises TierError for one that is not to be had.
    measure:   False leaves speed out (its points are then not earned, and the verdict says so).
    reference: the cells of the course's own solution by exercise name, or None where there is none.
    progress:  called with a sentence and a fraction while something takes time.
    live:      the cells come from a running kernel, so that messages speak of running cells.
    threads:   of the learner's code; all usable cores by default, fewer where several judges share them.
    user:      at the process tier, the place whose user runs the learner's code; the caller's own by default.
    libraries: what the learner's code finds imported.
    """

    def __init__(
        self,
        *,
        tier: str = "process",
        measure: bool = True,
        reference: Reference | None = None,
        progress: Progress | None = None,
        live: bool = False,
        threads: int | None = None,
        user: sandbox.Slot | None = None,
        libraries: tuple[str, ...] = LIBRARIES,
    ) -> None:
        if tier not in TIERS:
            raise TierError(f"there is no tier {tier!r}; there are {', '.join(TIERS)}")
        if tier != "process" and (why := sandbox.why_not()):
            raise TierError(f"the {tier} tier cannot be used here, for {why}")
        self.tier = tier
        self._walled = tier != "process"
        self._measure = measure
        self._reference = reference or (lambda name: None)
        self._progress = progress or (lambda text, fraction: None)
        self._live = live
        self._threads = threads or lab.hardware.usable_cores()
        self._user = user
        self._libraries = libraries
        self._learner: Bench | None = None
        self._course: Bench | None = None

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """End every process this judge started."""
        for bench in (self._learner, self._course):
            if bench is not None:
                bench.close()
        self._learner = self._course = None

    def start(self) -> None:
        """Start the learner's bench, without waiting for it."""
        if self._learner is None or not self._learner.alive:
            if self._learner is not None:
                self._learner.close()
            self._learner = Bench(
                threads=self._threads, walled=self._walled, user=self._user, libraries=self._libraries
            )

    def _bench(self) -> Bench:
        """The learner's bench, ready; a new one when the last submission's code has ended it. Raises BenchError."""
        self.start()
        self._learner.wait_until_ready()
        return self._learner

    def judge(self, exercise: Exercise, cells: Sequence[Cell]) -> Verdict:
        """The verdict on one exercise. Never raises for anything a learner's code does.

        Raises BenchError when learners' code cannot be run here at all: then nobody must get a mark.
        """
        started = time.monotonic()
        part = slice_for(cells, exercise.names) if exercise.key is None else None
        verdict = _quiz(exercise, cells) if part is None else self._judge_code(exercise, part)
        if awaits_timing(verdict) and self._measure:
            self._judge_speed(exercise, part, verdict)
        verdict.seconds = time.monotonic() - started
        verdict.tier = self.tier
        return legible(verdict)

    def time(self, exercise: Exercise, cells: Sequence[Cell], verdict: Verdict) -> Verdict:
        """The same verdict with its speed measured, where it `awaits_timing`. Raises BenchError like `judge`."""
        started = time.monotonic()
        if awaits_timing(verdict):
            self._judge_speed(exercise, slice_for(cells, exercise.names), verdict)
            verdict.seconds += time.monotonic() - started
        return legible(verdict)

    def _judge_code(self, exercise: Exercise, part: Slice) -> Verdict:
        if part.missing and not (part.anything and self._unreadable(part) is None):
            return _refused(exercise, self._why_missing(part), "untouched" if not part.unreadable else "none")
        ladder = Ladder(dict(exercise.rungs))
        try:
            doubt = self._climb(exercise, part, ladder)
        except Untouched:
            return _refused(exercise, "not answered yet", "untouched")
        except TimedOut:
            return _refused(exercise, f"your code did not finish within {exercise.seconds:g} s", "timeout")
        except Died as death:
            return _refused(exercise, f"your code did not come back: {death}", "died")
        verdict = _scored(exercise, ladder, doubt)
        skipped = [f"{cell.file} is not Python ({why}) and was skipped" for cell, why in part.unreadable]
        if skipped and not verdict.full:
            verdict.note = "; ".join(skipped[:3])
        if exercise.measured:
            verdict.rungs.append(RungResult(exercise.speed_rung, False, exercise.speed_points, UNMEASURED))
        return verdict

    def _climb(self, exercise: Exercise, part: Slice, ladder: Ladder) -> str | None:
        """Put every challenge to the learner's code. Returns why a person must look, or None."""
        worker = self._worker(exercise)
        deadline = time.monotonic() + exercise.seconds
        untouched, doubt = [], None
        try:
            loaded = _load(worker, exercise, part, deadline)
            if loaded.missing:
                ladder.fail(list(ladder.worth), _why_not_loaded(loaded))
                return None
            rng = np.random.default_rng(secrets.randbits(128))
            for given in exercise.challenges(rng):
                challenge = given if not isinstance(given, dict) else Challenge(given)
                decides = challenge.decides or tuple(ladder.worth)
                if challenge.after is not None:
                    worker.close()
                    worker = self._worker(exercise)
                    loaded = _load(worker, exercise, part, deadline, another=True)
                    if loaded.missing:
                        ladder.fail(decides, _why_not_loaded(loaded))
                        return doubt
                answer = challenge.answer = worker.run("run", challenge, deadline)
                unanswered = isinstance(answer, Raised) and _is_stub(answer)
                untouched.append(unanswered)
                if isinstance(answer, Raised) and (unanswered or not challenge.may_raise):
                    ladder.fail(
                        decides, _why_raised(answer, loaded.failures) + ("" if unanswered else _inputs(challenge))
                    )
                    continue
                try:
                    for rung in exercise.verify(challenge, answer):
                        ladder.add(rung)
                except Exception as error:
                    ladder.fail(decides, f"your answer, {describe(answer)}, could not be judged")
                    doubt = f"{exercise.name}: the check itself failed with {type(error).__name__}: {error}"
        finally:
            worker.close()
        if untouched and all(untouched):
            raise Untouched
        return doubt

    def _worker(self, exercise: Exercise) -> Worker:
        return self._bench().worker(memory_bytes=exercise.memory_bytes, cpu_seconds=exercise.seconds * self._threads)

    def _judge_speed(self, exercise: Exercise, part: Slice, verdict: Verdict) -> None:
        """Decide the speed rung, which comes last, and add its points and what was measured to a verdict."""
        verdict.rungs.pop()
        share, message, review = self._speed_of(exercise, part, verdict)
        verdict.points += share * exercise.speed_points
        verdict.rungs.append(RungResult(exercise.speed_rung, share == 1.0, exercise.speed_points, message))
        if verdict.speed is not None:
            verdict.speed |= {"share": share, "message": message}
        if review:
            verdict.review = f"{exercise.name}: {review}"
        verdict.outcome = "review" if verdict.review else _outcome(verdict.points, verdict.max_points)

    def _speed_of(self, exercise: Exercise, part: Slice, verdict: Verdict) -> tuple[float, str, str | None]:
        """(share of the speed points, message, why a person must look)."""
        cells = self._reference(exercise.name)
        reference = slice_for(cells, exercise.names) if cells is not None else None
        if reference is not None and reference.missing:
            reference = None
        bench = self._bench()
        if self.tier == "node" and (busy := self._busy()):
            return 0.0, f"speed was not measured, for {busy}", busy
        if self._course is None:
            self._course = Bench(threads=self._threads, shared=True, walled=self._walled)
        rng = np.random.default_rng(secrets.randbits(128))
        measurement = None
        try:
            measurement = Measurement(
                exercise,
                part,
                reference,
                (bench, self._course),
                rng,
                bandwidth=_bandwidth(exercise),
                progress=self._progress,
            )
            decision, facts = measurement.run()
        except Wrong as wrong:
            return 0.0, f"a timed answer was not right: {wrong}", None
        except TimedOut:
            limit, most = exercise.timed_seconds, MOST_BUDGETS * exercise.timed_seconds
            return 0.0, f"a timed call did not finish within {limit:g} s, or all of them within {most:g} s", None
        except Died as death:
            return 0.0, f"your code did not come back from a timed call: {death}", None
        except CourseFailed as failure:
            return 0.0, f"nothing could be measured: {failure}", str(failure)
        finally:
            if measurement is not None:
                measurement.close()
        if decision is None:
            counted = exercise.counted or tuple(exercise.rungs)
            share = float(all(rung.ok for rung in verdict.rungs if rung.name in counted))
            verdict.speed = {"measurable": False} | facts
            return share, _unmeasured_message(facts), None
        decision = replace(decision, review=decision.review or _disagreement(exercise, verdict, decision))
        against = "the course's solution" if exercise.not_slower else "the slow way"
        verdict.speed = _speed_facts(decision) | facts | {"against": against}
        return decision.share, _speed_message(decision, against), decision.review

    def _busy(self) -> str | None:
        """Why the machine is not this judge's alone, after waiting for others to finish; None when it is."""
        until = time.monotonic() + QUIET_SECONDS
        while (load := psutil.cpu_percent(interval=0.5)) > QUIET_PERCENT:
            self._progress(f"waiting for a quiet machine ({load:.0f}% busy)", 0.0)
            if time.monotonic() > until:
                return f"other programs kept this machine {load:.0f}% busy, and the node tier wants it alone"
        return None

    def _why_missing(self, part: Slice) -> str:
        name = part.missing[0]
        if found := self._unreadable(part):
            return f"{found[0].file} is not Python yet ({found[1]}), so there is no `{name}`"
        if self._live:
            return f"run your answer cell first: nothing you have run so far defines `{name}`"
        return f"no cell defines `{name}`"

    @staticmethod
    def _unreadable(part: Slice) -> tuple[Cell, str] | None:
        """The cell that is not Python and speaks of the missing name, and why it is not."""
        return next(((cell, why) for cell, why in part.unreadable if part.missing[0] in cell.source), None)


class Untouched(Exception):
    """Every challenge met the stub."""


def awaits_timing(verdict: Verdict) -> bool:
    """Whether only the speed of this verdict is still to be measured."""
    return bool(verdict.rungs) and verdict.rungs[-1].message == UNMEASURED


def judge_notebook(
    cells: Sequence[Cell],
    chapter: Chapter,
    *,
    tier: str = "process",
    measure: bool = True,
    reference: Reference | None = None,
    progress: Progress | None = None,
    only: str | None = None,
    threads: int | None = None,
    user: sandbox.Slot | None = None,
) -> Report:
    """All automatic marks of one notebook, or of one of its exercises."""
    chosen = [e for e in chapter.exercises if only in (None, e.name)]
    tell = progress or (lambda text, fraction: None)
    verdicts = []

    def inner(text: str, fraction: float) -> None:
        tell(f"{exercise.name}: {text}", (len(verdicts) + fraction) / len(chosen))

    made = Judge(
        tier=tier,
        measure=measure,
        reference=reference,
        progress=inner,
        threads=threads,
        user=user,
        libraries=chapter.libraries,
    )
    with made as judge:
        for exercise in chosen:
            inner("checking", 0.0)
            verdicts.append(judge.judge(exercise, cells))
    return Report(chapter.slug, tier, verdicts)


def time_notebook(
    cells: Sequence[Cell],
    chapter: Chapter,
    report: Report,
    *,
    reference: Reference | None = None,
    progress: Progress | None = None,
) -> Report:
    """A report of `judge_notebook(..., measure=False)` with the speeds that it still awaits."""
    tell = progress or (lambda text, fraction: None)
    with Judge(tier=report.tier, reference=reference, progress=tell, libraries=chapter.libraries) as judge:
        timed = [
            judge.time(exercise, cells, verdict)
            for exercise, verdict in zip(chapter.exercises, report.verdicts, strict=True)
        ]
    return Report(report.chapter, report.tier, timed)


def _refused(exercise: Exercise, reason: str, outcome: str) -> Verdict:
    """No points, and why."""
    rungs = [RungResult(name, False, points, "") for name, points in exercise.rungs.items()]
    if exercise.measured:
        rungs.append(RungResult(exercise.speed_rung, False, exercise.speed_points, ""))
    return Verdict(exercise.name, 0.0, exercise.points, outcome, rungs, note=reason)


def _scored(exercise: Exercise, ladder: Ladder, doubt: str | None) -> Verdict:
    rungs = ladder.results()
    points = sum(r.points for r in rungs if r.ok)
    outcome = "review" if doubt else _outcome(points, exercise.points)
    return Verdict(exercise.name, points, exercise.points, outcome, rungs, review=doubt)


def _outcome(points: float, max_points: float) -> str:
    return "full" if points >= max_points else "partial" if points > 0 else "none"


def _load(worker: Worker, exercise: Exercise, part: Slice, deadline: float, *, another: bool = False) -> Loaded:
    """Bring `run` and the learner's statements into a new process."""
    worker.define("run", exercise.run, deadline)
    return worker.load(part.cells, part.keep, part.flags, exercise.names, deadline, another=another)


def _why_not_loaded(loaded: Loaded) -> str:
    for failure in loaded.failures:
        if set(failure.names) & set(loaded.missing):
            return _why_raised(failure.raised)
    return f"after your cells had run, `{loaded.missing[0]}` was not there"


def _is_stub(answer: Raised) -> bool:
    """Whether this is the stub's own `raise`, and not a library's word about something it cannot do."""
    line = answer.frames[-1].split(": ", 1)[-1] if answer.frames else ""
    return answer.kind == "NotImplementedError" and line.startswith("raise NotImplementedError")


def _why_raised(answer: Raised, failures: Sequence[Failure] = ()) -> str:
    """What the learner's code raised, and where; for a name that is not there also what lost it."""
    if _is_stub(answer):
        return "not answered yet"
    ended = answer.kind in ("SystemExit", "KeyboardInterrupt")
    lines = [f"your code ended itself ({answer.kind})" if ended else f"your code raised {answer}", *answer.frames]
    for failure in failures:
        if answer.kind == "NameError" and any(f"'{name}'" in answer.message for name in failure.names):
            lines += [f"It was lost when an earlier cell raised {failure.raised}", *failure.raised.frames]
            break
    return "\n".join(lines)


def _inputs(challenge: Challenge) -> str:
    """What the learner's code was given, where that is little enough to be read and not a script of steps."""
    if not 0 < len(challenge.data) <= MOST_INPUTS or not all(map(_is_short, challenge.data.values())):
        return ""
    return "\nIt was given " + ", ".join(f"{name}: {describe(value)}" for name, value in challenge.data.items())


def _is_short(value) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= 4 and all(number(item) is not None for item in value)
    return not isinstance(value, dict)


def _bandwidth(exercise: Exercise) -> float | None:
    """Bytes per second of this machine, where bytes must move and it was measured in quiet."""
    if not exercise.bytes_moved(exercise.workloads[0]):
        return None
    card = lab.machine_card()
    return card.bandwidth if card.quiet else None


def _disagreement(exercise: Exercise, verdict: Verdict, decision) -> str | None:
    """Why a person must look when the counted work, which the learner's own process counts, is right and slow."""
    right = {rung.name for rung in verdict.rungs if rung.ok}
    if not exercise.counted or not right.issuperset(exercise.counted) or decision.reference_ratio is None:
        return None
    if decision.share > 0 or decision.noisy:
        return None
    return "it counts as the fast way and takes as long as the slow one: were the counts made up?"


def _speed_facts(decision) -> dict:
    sides = {"baseline": [], "learner": [], "reference": []}
    for triple in decision.triples:
        for side, seconds in sides.items():
            seconds.append(getattr(triple, side))
    return {
        "measurable": True,
        "ratio": decision.ratio,
        "reference_ratio": decision.reference_ratio,
        "score": decision.score,
        "half_bar": decision.bars[0],
        "full_bar": decision.bars[1],
        "noisy": decision.noisy,
        "triples": len(decision.triples),
        "seconds": sides,
    }


def _unmeasured_message(facts: dict) -> str:
    follow = "These points follow the counted work above"
    if "shown" in facts:
        return (
            f"a call takes you {1e3 * facts['shown']:.3g} ms here. {follow}. Provisional: whether that is slower than "
            "the course's solution is decided on your teacher's machine."
        )
    why = "it is too slow, or busy"
    if "reached" in facts:
        why = (
            f"the course's own solution reaches {facts['reached']:.2f}x the slow way, too little to tell anybody apart"
        )
    return (
        f"speed was not measurable on this machine, or not now: {why}. {follow}; a check on a quiet machine measures."
    )


def _speed_message(decision, against: str) -> str:
    half, full = decision.bars
    if half == full:  # nothing between all and nothing: only slowness costs
        text = f"{decision.ratio:.2f}x the speed of {against}. Full marks start at {full:.2f}x."
        return text + _remarks(decision)
    if decision.reference_ratio is None:
        course = "Provisional: decided on your teacher's machine."
    else:
        course = f"The course's solution reaches {decision.reference_ratio:.1f}x here."
    text = (
        f"{decision.ratio:.2f}x the speed of {against}. {course} "
        f"Half marks start at {half:.2f}x, full marks at {full:.2f}x."
    )
    return text + _remarks(decision)


def _remarks(decision) -> str:
    text = " Noisy machine: decided by the estimate." if decision.noisy else ""
    if decision.review:
        text += f" In class a person looks at this: {decision.review}."
    return text


def _quiz(exercise: Exercise, cells: Sequence[Cell]) -> Verdict:
    """A quiz's literal against its key. Only the number right is told."""
    name, key, allowed = exercise.name, exercise.key, set(exercise.allowed)
    total = sum(len(_leaves(value)) for value in key.values())
    verdict = Verdict(name, 0.0, exercise.points, "none")
    try:
        given = last_literal(cells, name)
    except KeyError:
        verdict.note, verdict.outcome = f"no cell assigns `{name}`", "untouched"
        return verdict
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        verdict.note = f"`{name}` must be written out as a plain dict of the allowed values, with nothing computed"
        return verdict
    if not isinstance(given, dict):
        verdict.note = f"`{name}` must be a dict; this is {describe(given)}"
        return verdict
    answers = {question: _leaves(given.get(question)) for question in key}
    flat = [leaf for leaves in answers.values() for leaf in leaves]
    if all(leaf is None for leaf in flat):
        verdict.note, verdict.outcome = "not answered yet", "untouched"
        return verdict
    strange = [leaf for leaf in flat if leaf is not None and (not _hashable(leaf) or leaf not in allowed)]
    right = sum(
        leaf == wanted
        for question, value in key.items()
        for leaf, wanted in zip(answers[question], _leaves(value), strict=False)
    )
    verdict.points = _quiz_points(exercise, right, total)
    verdict.outcome = _outcome(verdict.points, verdict.max_points)
    verdict.note = f"{right} of {total} right"
    if right < total:
        verdict.note += f"; the same value everywhere would get {_right_for_nothing(key)}, so points begin there"
    if strange:
        verdict.note += f"; {describe(strange[0])} is not one of the allowed values"
    return verdict


def _quiz_points(exercise: Exercise, right: int, total: int) -> float:
    """Points in halves, counted from what one and the same answer everywhere would get right."""
    for_nothing = _right_for_nothing(exercise.key)
    share = max(0, right - for_nothing) / max(1, total - for_nothing)
    return math.floor(2 * exercise.points * share) / 2


def _right_for_nothing(key) -> int:
    """How many of a quiz's answers the commonest value gets right."""
    values = [leaf for value in key.values() for leaf in _leaves(value)]
    return max(values.count(value) for value in values)


def legible(verdict: Verdict) -> Verdict:
    """The verdict with every text cut to a length, and with what is not Unicode text written out."""

    def text(message: str | None) -> str | None:
        if message is None:
            return None
        shown = message if len(message) <= MAX_TEXT else message[:MAX_TEXT] + " ..."
        return shown.encode("utf-8", "backslashreplace").decode()

    verdict.note, verdict.review = text(verdict.note), text(verdict.review)
    verdict.rungs = [replace(rung, message=text(rung.message)) for rung in verdict.rungs]
    if verdict.speed and "message" in verdict.speed:
        verdict.speed["message"] = text(verdict.speed["message"])
    return verdict


def _leaves(value) -> list:
    return list(value) if isinstance(value, tuple | list) else [value]


def _hashable(value) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
