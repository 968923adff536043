"""Chapter 00: timing something that is asynchronous, warms up and shares its machine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import NormalDist, mean, median

import numpy as np

from autograder.chapters.devices import LAUNCH_SECONDS, VirtualDevice
from autograder.exercise import (
    Challenge,
    Chapter,
    Exercise,
    MarkScheme,
    Rung,
    Sample,
    SchemePoint,
    close,
    describe,
    number,
    numbers,
)


@dataclass(frozen=True)
class Event:
    """One thing that happened on a device: a call of its work, a sync, or a reading of its clock."""

    kind: str  # "work", "sync" or "clock"
    side: str = ""  # whose work
    took: float = 0.0  # work: seconds on an idle device, launch included
    at: float = 0.0  # clock: the reading
    pending: float = 0.0  # clock: seconds of work in the queue when it was read


class RecordingDevice(VirtualDevice):
    """A virtual device that remembers everything asked of it, in order."""

    def __init__(self, start: float) -> None:
        super().__init__(start)
        self.events: list[Event] = []

    def work(self, side: str, seconds: float) -> None:
        """Enqueue a side's call."""
        self.enqueue(seconds)
        self.events.append(Event("work", side, took=seconds + LAUNCH_SECONDS))

    def sync(self) -> None:
        super().sync()
        self.events.append(Event("sync"))

    def clock(self) -> float:
        self.events.append(Event("clock", at=self.now, pending=self.pending))
        return self.now

    def calls(self, side: str = "") -> list[Event]:
        """The calls of one side's work."""
        return [event for event in self.events if event.kind == "work" and event.side == side]


@dataclass
class DeviceChallenge(Challenge):
    """A challenge whose calls drive a device; the device stays with the judge."""

    device: RecordingDevice = field(default_factory=lambda: RecordingDevice(0.0))


def _same(given: list[float] | None, expected: list[float] | None) -> bool:
    """Whether two lists of seconds agree, number by number."""
    if given is None or expected is None or len(given) != len(expected):
        return False
    return all(close(one, other, relative=1e-5) for one, other in zip(given, expected, strict=True))


def _ms(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:,.0f} ms" if abs(value) >= 100 else f"{value:.3g} ms"


def _unseen(given: str, expected: str) -> str:
    """What to add where two different numbers look the same in a message."""
    same = " They differ in digits that are not shown: was yours rounded, by a 16-bit number format perhaps?"
    return same if given == expected else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _outcome(answer) -> tuple[bool, object]:
    """(whether it was a ValueError, what was returned) of a `run` that tells the two apart."""
    if isinstance(answer, dict) and "returned" in answer:
        return False, answer["returned"]
    return answer == "ValueError" if isinstance(answer, str) else False, answer


def _read_around(events: list[Event], last: int) -> list[float]:
    """What the learner's own readings say of the last calls: the one just after each less the one just before.

    A call without a reading of its own on both sides is left out.
    """
    relevant = [event for event in events if event.kind != "sync"]
    calls = [i for i, event in enumerate(relevant) if event.kind == "work"][-last:]
    around = [(relevant[i - 1], relevant[i + 1]) for i in calls if 0 < i < len(relevant) - 1]
    return [after.at - before.at for before, after in around if before.kind == after.kind == "clock"]


class TimeCalls(Exercise):
    """Seconds of each counted call on an asynchronous device.

    Honest is every sequence in which the readings around a counted call are taken with nothing in the queue; more
    syncs than needed do no harm. The samples themselves decide, and the record of events only explains.
    """

    WARM = "the warm-up calls are made first and are not counted"
    START = "the clock starts on an idle device"
    STOP = "the clock stops when the work is done"
    RETURNED = "the seconds of every counted call are returned, in order"

    name = "time_calls"
    rungs: Mapping[str, float] = {WARM: 2, START: 1, STOP: 2, RETURNED: 1}
    hints = (
        "work() comes back long before its work is done. At which moments must nothing be left in the queue, for the "
        "difference of two readings to be the time of one call and of nothing else?",
        "Write down, in order, what happens between the end of the warm-up and the end of the first counted call. "
        "Where are the two readings, and what stands right before each of them?",
    )

    def challenges(self, rng):
        yield self._scripted(rng, warmup=3, repeats=int(rng.integers(5, 9)))
        yield self._scripted(rng, warmup=int(rng.integers(1, 6)), repeats=int(rng.integers(10, 20)))
        yield self._scripted(rng, warmup=0, repeats=1)

    @staticmethod
    def _scripted(rng, *, warmup: int, repeats: int) -> DeviceChallenge:
        """The first `warmup` calls are slow, and somebody's work is in the queue already."""
        device = RecordingDevice(float(rng.uniform(10, 1000)))
        device.enqueue(float(rng.uniform(0.05, 0.2)))
        usual = rng.uniform(2e-3, 2e-2)
        costs = usual * rng.uniform(0.9, 1.3, warmup + repeats)
        costs[:warmup] *= rng.uniform(8, 40, warmup)

        def work() -> None:
            device.work("", float(costs[min(len(device.calls()), len(costs) - 1)]))

        calls = {"work": work, "sync": device.sync, "clock": device.clock}
        return DeviceChallenge({"warmup": warmup, "repeats": repeats}, calls, device=device)

    @staticmethod
    def run(learner, challenge):
        return learner.time_calls(
            challenge["work"],
            warmup=challenge["warmup"],
            repeats=challenge["repeats"],
            sync=challenge["sync"],
            clock=challenge["clock"],
        )

    def verify(self, challenge, answer):
        warmup, repeats, events = challenge["warmup"], challenge["repeats"], challenge.device.events
        took = [call.took for call in challenge.device.calls()]
        if not took:
            yield from (Rung(name, False, "work() was never called.") for name in self.rungs)
            return
        given = numbers(answer)
        if len(took) == warmup + repeats and _same(given, took[warmup:]):
            yield from (Rung(name, True) for name in self.rungs)
            return
        first = max(0, len(took) - repeats)  # the first counted call, when the last `repeats` are the counted ones
        for name, why in (
            (self.WARM, self._why_warm(answer, given, took, warmup, repeats)),
            (self.START, self._why_start(events, first)),
            (self.STOP, self._why_stop(events, first)),
            (self.RETURNED, self._why_returned(answer, given, events, took, warmup, repeats)),
        ):
            yield Rung(name, not why, why)

    @staticmethod
    def _why_warm(answer, given, took, warmup, repeats) -> str:
        made, value = len(took), number(answer)
        if made == repeats and warmup:
            return (
                f"work() was called {_times(made)}, for warmup={warmup} and repeats={repeats}: you measured without "
                f"a warm-up. The first call took {_ms(took[0])}, the last {_ms(took[-1])}. What do first calls pay for?"
            )
        if made != warmup + repeats:
            return f"work() was called {_times(made)}, for warmup={warmup} and repeats={repeats}."
        counted = given and warmup and (len(given) == made or close(given[0], took[0], relative=1e-5))
        if counted or (warmup and value is not None and close(value, mean(took), relative=1e-5)):
            return (
                f"You counted {_ms(took[0])} for the first call and a usual one takes {_ms(took[-1])}: the warm-up "
                f"calls are among them. Which {repeats} of the {made} calls count?"
            )
        return ""

    @staticmethod
    def _why_start(events, first) -> str:
        if not any(event.kind == "clock" for event in events):
            return "The clock you were given was never read, so nothing was measured on this device."
        reading = None
        for event in events:
            if event.kind == "work":
                if first == 0:
                    break
                first -= 1
            elif event.kind == "clock":
                reading = event
        if reading is None:
            return "The clock was not read before the first counted call."
        if reading.pending:
            return (
                f"When you started the clock for the first counted call, {_ms(reading.pending)} of earlier work was "
                "still in the queue. Your first sample waits for that work too. Who should have waited for it?"
            )
        return ""

    @staticmethod
    def _why_stop(events, first) -> str:
        if not any(event.kind == "clock" for event in events):
            return "The clock you were given was never read after a call, so no call has an end."
        positions = [i for i, event in enumerate(events) if event.kind == "work"][first:]
        after = events[positions[0] :] if positions else []
        early = [event for event in after if event.kind == "clock" and event.pending]
        if early:
            why = (
                f"You read the clock with {_ms(early[0].pending)} of work still in the queue. That reading shows what "
                "it costs to ask for the work, not what the work costs."
            )
            last_reading = max(i for i, event in enumerate(after) if event.kind == "clock")
            if not any(event.kind == "sync" for event in after):
                late = " After the warm-up, sync() was never called again."
                never = " sync() was never called."
                return why + (late if any(event.kind == "sync" for event in events) else never)
            if not any(event.kind == "sync" for event in after[:last_reading]):
                return f"{why} You did call sync(), but only after the last reading: too late for all of them."
            return why
        for here, there in zip(positions, [*positions[1:], len(events)], strict=True):
            if not any(event.kind == "clock" for event in events[here:there]):
                return (
                    "One reading for several calls: you know what they took together, but not what each of them took."
                )
        return ""

    @staticmethod
    def _why_returned(answer, given, events, took, warmup, repeats) -> str:
        value, counted = number(answer), took[max(0, len(took) - repeats) :]
        honest_or_own = (counted, _read_around(events, repeats), _read_around(events, len(took)))
        if given and any(_same(given, samples) for samples in honest_or_own):
            return ""  # whatever is wrong with these readings is told by the other rungs
        if value is not None:
            for kind, summary in (("the mean", mean), ("the median", median), ("the sum", sum)):
                if counted and close(value, summary(counted), relative=1e-5):
                    return (
                        f"You returned {describe(answer)}: {kind} of the calls. A summary cannot be undone; return a "
                        f"list with the seconds of each, and let the caller summarise."
                    )
        if given is None:
            return f"You returned {describe(answer)}; expected a list of {repeats} numbers, the seconds of each call."
        if len(given) != repeats:
            return f"You returned {len(given)} samples for repeats={repeats}."
        if len(given) > 1 and len(set(given)) == 1 and math.isfinite(given[0]):
            return f"All {repeats} samples are the same, {_ms(given[0])}: that is their mean, {_times(repeats)}."
        wrong = next(i for i in range(repeats) if len(counted) <= i or not close(given[i], counted[i], relative=1e-5))
        took_then = _ms(counted[wrong]) if wrong < len(counted) else "never made"
        why = f"Counted call number {wrong + 1} of {repeats}: you returned {_ms(given[wrong])}; it took {took_then}."
        return why + _unseen(_ms(given[wrong]), took_then)


class MedianAndIqr(Exercise):
    """The median and the interquartile range, with linear interpolation between samples."""

    MEDIAN = "the median, for odd and for even numbers of samples"
    SPREAD = "the spread is the distance between the quartiles"
    EDGES = "one sample has no spread, and no samples are a ValueError"

    name = "median_and_iqr"
    rungs: Mapping[str, float] = {MEDIAN: 1, SPREAD: 1, EDGES: 1}
    hints = (
        "Sort five samples on paper and cross out the largest, putting ten times its value. Which of your two numbers "
        "should stay as they are?",
        "With n = 6, which position is a quarter of the way from the first to the last, and which two samples lie "
        "beside it? And what is left of the quartiles when n is 1?",
    )

    def challenges(self, rng):
        for count in (9, int(rng.integers(5, 15)) * 2, int(rng.integers(6, 20)) * 4 + 3):
            yield Challenge({"samples": self._samples(rng, count)}, decides=(self.MEDIAN, self.SPREAD))
        for count in (1, 0):
            yield Challenge({"samples": self._samples(rng, count)}, decides=(self.EDGES,), may_raise=count == 0)

    @staticmethod
    def _samples(rng, count: int) -> list[float]:
        """Times of a call, in no order, with a gap in the middle and a few stalls."""
        samples = rng.uniform(0.01, 0.1) * np.sort(rng.lognormal(0, 0.1, count))
        samples[(count + 1) // 2 :] *= 1.03
        samples[count - count // 6 :] *= rng.uniform(3, 10, count // 6)
        return rng.permutation(samples).tolist()

    @staticmethod
    def run(learner, challenge):
        try:
            return {"returned": learner.median_and_iqr(challenge["samples"])}
        except ValueError:
            if challenge["samples"]:
                raise
            return "ValueError"

    def verify(self, challenge, answer):
        samples, raised, answer = challenge["samples"], *_outcome(answer)
        if not samples:
            yield Rung(self.EDGES, raised, self._why_empty(answer))
            return
        given = numbers(answer)
        if given is None or len(given) != 2:
            why = f"You returned {describe(answer)}; expected two numbers, the median and the interquartile range."
            yield from (Rung(name, False, why) for name in challenge.decides)
        elif len(samples) == 1:
            ok = close(given[0], samples[0], relative=1e-5) and close(given[1], 0.0)
            yield Rung(self.EDGES, ok, self._why_one(given, samples[0]))
        else:
            q1, middle, q3 = np.quantile(samples, [0.25, 0.5, 0.75])
            yield Rung(self.MEDIAN, close(given[0], middle, relative=1e-5), self._why_median(given[0], samples))
            yield Rung(self.SPREAD, close(given[1], q3 - q1, relative=1e-4), self._why_spread(given[1], samples))

    @staticmethod
    def _why_empty(answer) -> str:
        return f"For no samples you gave {describe(answer)}. Nothing was measured: that is a ValueError, not a number."

    @staticmethod
    def _why_one(given, sample) -> str:
        return (
            f"For one sample of {describe(sample)} you gave [{given[0]:.4g}, {given[1]:.4g}]. The median of one sample "
            "is that sample, both quartiles are too, and so their distance is 0."
        )

    @staticmethod
    def _why_median(value, samples) -> str:
        why = f"median: for {len(samples)} samples you gave {describe(value)}, expected {median(samples):.4g}."
        ordered = sorted(samples)
        n = len(ordered)
        for known, text in (
            (mean(samples), "That is the mean: the few stalled calls pull it up."),
            (ordered[0], "That is the smallest sample: the luckiest call, which nobody gets on average."),
            (ordered[(n - 1) // 2], "An even number: that is the lower of the two middle samples."),
            (ordered[n // 2], "An even number: that is the upper of the two middle samples."),
            (samples[n // 2], "That is the middle of the list as it came, without sorting."),
        ):
            if close(value, known, relative=1e-5):
                return f"{why} {text}"
        return why + _unseen(describe(value), describe(median(samples)))

    @staticmethod
    def _why_spread(value, samples) -> str:
        q1, q3 = np.quantile(samples, [0.25, 0.75])
        why = f"spread: for {len(samples)} samples you gave {describe(value)}, expected {q3 - q1:.4g}."
        exclusive = np.quantile(samples, [0.25, 0.75], method="weibull")
        for known, text in (
            (max(samples) - min(samples), "That is largest minus smallest: one stall decides it alone."),
            (float(np.std(samples)), "That is the standard deviation, which a few stalls blow up."),
            (float(np.std(samples, ddof=1)), "That is the standard deviation, which a few stalls blow up."),
            (q1 - q3, "The sign is wrong: the upper quartile less the lower."),
            ((q3 - q1) / 2, "That is half of it: the whole distance from quartile to quartile is asked for."),
            (exclusive[1] - exclusive[0], "These quartiles follow another convention: position (n + 1) / 4, not "
             "(n - 1) / 4 counted from 0."),
        ):  # fmt: skip
            if close(value, float(known), relative=1e-5):
                return f"{why} {text}"
        return why + _unseen(describe(value), describe(q3 - q1))


class PairedRatio(Exercise):
    """How many times faster the candidate is: the median over pairs of baseline / candidate.

    The device slows down as the run goes on (a few percent per call) and stalls now and then. All of one side before
    the other is then off by the whole drift, a fixed order by one call's; alternating pairs cancel it.
    """

    PAIRS = "the two sides are timed in pairs"
    ORDER = "the order changes from pair to pair"
    RESULT = "the result is the median of baseline / candidate over the pairs"
    EVEN = "an odd number of pairs is a ValueError"

    name = "paired_ratio"
    rungs: Mapping[str, float] = {PAIRS: 1, ORDER: 1, RESULT: 2, EVEN: 1}
    hints = (
        "A machine that gets slower with every call: which of the two calls of a pair suffers, and how can it be the "
        "other one's turn as often?",
        "You have the seconds of both calls of each pair. What do you divide, and when: pair by pair and then take "
        "the middle, or the other way round? How many pairs does a fair change of order need?",
    )

    def challenges(self, rng):
        for pairs in (12, int(rng.integers(4, 10)) * 2):
            # whoever raises here as well has not told odd from even
            yield self._scripted(rng, pairs, (self.PAIRS, self.ORDER, self.RESULT, self.EVEN))
        yield self._scripted(rng, int(rng.integers(2, 6)) * 2 + 1, (self.EVEN,))

    @staticmethod
    def _scripted(rng, pairs: int, decides) -> DeviceChallenge:
        device = RecordingDevice(float(rng.uniform(10, 1000)))
        candidate = float(rng.uniform(5e-3, 2e-2))
        usual = {"baseline": candidate * float(rng.uniform(1.2, 2.5)), "candidate": candidate}
        drift = float(rng.uniform(1.03, 1.05))
        # Stalls in pairs of either parity, equally many: the median of alternating pairs stays where it is.
        stalls = {
            side: set((2 * rng.choice(pairs // 2, pairs // 6, replace=False) + parity).tolist())
            for parity, side in enumerate(usual)
        }
        stall = float(rng.uniform(3, 8))

        def call(side: str) -> None:
            made = device.calls(side)
            everything = len(device.calls("baseline")) + len(device.calls("candidate"))
            slow = stall if len(made) in stalls[side] else 1.0
            device.work(side, usual[side] * drift**everything * slow)

        calls = {side: (lambda side=side: call(side)) for side in usual}
        calls |= {"sync": device.sync, "clock": device.clock}
        may_raise = pairs % 2 == 1
        return DeviceChallenge({"pairs": pairs}, calls, decides, may_raise, device=device)

    @staticmethod
    def run(learner, challenge):
        try:
            ratio = learner.paired_ratio(
                challenge["baseline"],
                challenge["candidate"],
                pairs=challenge["pairs"],
                sync=challenge["sync"],
                clock=challenge["clock"],
            )
            return {"returned": ratio}
        except ValueError:
            if challenge["pairs"] % 2 == 0:
                raise
            return "ValueError"

    def verify(self, challenge, answer):
        pairs, device, raised, answer = challenge["pairs"], challenge.device, *_outcome(answer)
        if pairs % 2:
            yield Rung(self.EVEN, raised, self._why_even(answer, pairs))
            return
        timed = self._timed(device.events)
        order = "".join("A" if event.side == "baseline" else "B" for event in timed if event.kind == "work")
        a, b = ([e.took for e in timed if e.side == side] for side in ("baseline", "candidate"))
        for name, why in (
            (self.PAIRS, self._why_pairs(order, pairs)),
            (self.ORDER, self._why_order(order)),
            (self.RESULT, self._why_result(answer, a, b, timed, order[::2])),
        ):
            yield Rung(name, not why, why)

    @staticmethod
    def _timed(events) -> list[Event]:
        """What happened from the first reading of the clock on: anything before it was a warm-up."""
        first = next((i for i, event in enumerate(events) if event.kind == "clock"), len(events))
        return events[first:]

    @staticmethod
    def _why_even(answer, pairs) -> str:
        return (
            f"For an odd number of pairs ({pairs}) you gave {describe(answer)}, expected a ValueError: one side would "
            "go first once more often than the other."
        )

    @staticmethod
    def _why_pairs(order, pairs) -> str:
        a, b = order.count("A"), order.count("B")
        if a != pairs or b != pairs:
            return f"For pairs={pairs} you timed the baseline {_times(a)} and the candidate {_times(b)}."
        if order in ("A" * a + "B" * b, "B" * b + "A" * a):
            return (
                "You timed every call of one side before the first of the other. This device slows down while you "
                "measure, as a laptop getting hot does, and only one side pays for it. What would both sides pay?"
            )
        if any(order[i] == order[i + 1] for i in range(0, 2 * pairs, 2)):
            return f"A is the baseline, B the candidate, and you timed them in the order {order}: not in pairs."
        return ""

    @staticmethod
    def _why_order(order) -> str:
        first = order[::2]
        if len(first) > 1 and all(one != other for one, other in pairwise(first)):
            return ""
        if first and len(set(first)) == 1 and order[1::2] != first:
            return (
                "The same side went first in every pair. Whatever goes second meets a device that is a little slower "
                "by then, and the median keeps that error however many pairs you take."
            )
        return f"The side that goes first has to change from pair to pair; you timed in the order {order}."

    @staticmethod
    def _why_result(answer, a, b, timed, first) -> str:
        value = number(answer)
        if value is None:
            return f"You returned {describe(answer)}; expected one number."
        if not any(event.kind == "clock" for event in timed):
            return "The clock you were given was never read."
        early = next((event.pending for event in timed if event.kind == "clock" and event.pending), None)
        if early:
            return (
                f"You read the clock with {_ms(early)} of work still in the queue, so the ratio is not one of times "
                "the work took."
            )
        if len(a) != len(b) or not a:
            return f"You returned {describe(answer)}, and the two sides were not timed equally often."
        ratios = sorted(x / y for x, y in zip(a, b, strict=True))
        expected = median(ratios)
        if close(value, expected, relative=1e-5):
            return ""
        why = f"The median of baseline / candidate over your {len(a)} pairs is {expected:.4g}; you gave {value:.4g}."
        inverse = [1 / ratio for ratio in ratios]
        by_turn = [x / y if one == "A" else y / x for x, y, one in zip(a, b, first, strict=False)]
        for known, text in (
            (median(inverse), "That is upside down, candidate / baseline: a ratio above 1 should mean faster."),
            (median(by_turn), "That is the first call of each pair / the second: in every other pair the candidate's "
             "is on top."),
            (1 / expected, "That is upside down, candidate / baseline: a ratio above 1 should mean faster."),
            (mean(a) / mean(b), "That is the ratio of the two means: a stalled call in either decides it."),
            (sum(inverse) / len(a), "That is the mean of candidate / baseline: upside down, and not the median."),
            (median(a) / median(b), "That is the ratio of the two medians: it compares calls of different pairs, "
             "made at different moments."),
            (mean(ratios), "That is the mean of the pairs' ratios: one stalled call moves it."),
            (ratios[len(a) // 2 - 1], "That is the lower of the two middle ratios; with one order it is too low."),
            (ratios[len(a) // 2], "That is the upper of the two middle ratios; with one order it is too high."),
        ):  # fmt: skip
            if close(value, known, relative=1e-5):
                return f"{why} {text}"
        return why + _unseen(f"{value:.4g}", f"{expected:.4g}")


class RatioInterval(Exercise):
    """A bootstrap interval for the median, accepted by how often it holds the true one.

    One pooled statistic over 1200 data sets: the share of intervals that hold the true median, less the confidence
    promised. The percentile bootstrap is at -0.006 (151,200 intervals simulated), with a standard deviation of 0.0094
    over 1200 data sets: the nearer edge, +0.04, is nearly 5 of them away, so a right answer is refused less than once
    in 100,000 checks. The interval of the mean is at -0.48, a fixed 95% at +0.07, the basic bootstrap at -0.12.
    """

    REPEATABLE = "two numbers, lower first, and the same ones for the same rng"
    WIDER = "more confidence gives a wider interval"
    COVERAGE = "it holds the true median as often as promised"
    DATA_SETS = 1200
    ALLOWED = (-0.08, 0.04)

    name = "ratio_interval"
    rungs: Mapping[str, float] = {REPEATABLE: 1, WIDER: 1, COVERAGE: 2}
    seconds = 60.0
    hints = (
        "You cannot repeat the whole measurement a thousand times. What can you draw from, with replacement, that "
        "looks like repeating it, and what would you write down each time?",
        "A thousand resampled medians lie between a smallest and a largest. If `confidence` of them are to be inside, "
        "what share is left outside, and how much of that on either side?",
    )

    def challenges(self, rng):
        # Two independent bootstraps of so few ratios often agree to the last digit: twenty of them do not.
        ratios, sizes = self._ratios(rng, 20, np.ones(20))
        rows = np.repeat(np.arange(20), 3)  # every data set three times: twice alike, then with more confidence
        data = {
            "ratios": ratios[rows],
            "sizes": sizes[rows].tolist(),
            "confidences": [0.8, 0.8, 0.95] * 20,
            "seeds": rng.integers(2**31, size=20)[rows].tolist(),
        }
        yield Challenge(data, decides=(self.REPEATABLE, self.WIDER))
        truth = rng.uniform(0.5, 3, self.DATA_SETS)
        ratios, sizes = self._ratios(rng, self.DATA_SETS, truth)
        data = {
            "ratios": ratios,
            "sizes": sizes.tolist(),
            "confidences": rng.uniform(0.8, 0.95, self.DATA_SETS).round(3).tolist(),
            "seeds": rng.integers(2**31, size=self.DATA_SETS).tolist(),
        }
        yield CoverageChallenge(data, decides=(self.COVERAGE,), truth=truth)

    @staticmethod
    def _ratios(rng, count: int, truth) -> tuple[np.ndarray, np.ndarray]:
        """Skewed ratios [count, 60] around true medians [count], and how many of each row are meant (25 to 60)."""
        noise = rng.normal(size=(count, 60)) * rng.uniform(0.5, 0.8, (count, 1))
        return np.asarray(truth)[:, None] * np.exp(noise), rng.integers(25, 61, count)

    @staticmethod
    def run(learner, challenge):
        import torch

        torch.set_num_threads(1)  # tensors this small gain nothing from more, and lose much on a busy machine
        intervals = []
        for row, size in enumerate(challenge["sizes"]):
            ratios = challenge["ratios"][row][:size].tolist()
            rng = torch.Generator().manual_seed(challenge["seeds"][row])
            interval = learner.ratio_interval(ratios, confidence=challenge["confidences"][row], rng=rng)
            intervals.append(interval)
        return intervals

    def verify(self, challenge, answer):
        intervals = [numbers(interval) for interval in answer]
        for given, interval in zip(answer, intervals, strict=True):
            if interval is None or len(interval) != 2:
                why = f"ratio_interval returned {describe(given)}; expected two numbers, low and high."
                yield from (Rung(name, False, why) for name in challenge.decides)
                return
        if self.COVERAGE in challenge.decides:
            why = self._why_coverage(challenge, np.array(intervals))
            yield Rung(self.COVERAGE, not why, why)
            return
        once, again, surer = intervals[::3], intervals[1::3], intervals[2::3]
        why = self._why_not_repeatable(once, again)
        yield Rung(self.REPEATABLE, not why, why)
        why = self._why_not_wider(once, surer)
        yield Rung(self.WIDER, not why, why)

    @staticmethod
    def _why_not_repeatable(once, again) -> str:
        for (low, high), second in zip(once, again, strict=True):
            if not low <= high:
                return f"You returned ({low:.4g}, {high:.4g}); expected the lower end first, and two finite numbers."
            if not _same([low, high], second):
                return (
                    f"The same ratios and a generator in the same state gave ({low:.4g}, {high:.4g}) and then "
                    f"({second[0]:.4g}, {second[1]:.4g}). Draw every random number from `rng`, so that a reader can "
                    "repeat your figure."
                )
        return ""

    @staticmethod
    def _why_not_wider(once, surer) -> str:
        narrow, wide = (sum(high - low for low, high in side) / len(side) for side in (once, surer))
        if narrow <= 0 or not np.isfinite(narrow):
            return "Your intervals have no width: is every resample drawn *with* replacement?"
        if wide >= 1.1 * narrow:
            return ""
        return (
            f"At confidence 0.8 your intervals are {narrow:.3g} wide on average, and {wide:.3g} at 0.95, for the same "
            "ratios: the width ignores `confidence`."
        )

    def _why_coverage(self, challenge, intervals) -> str:
        low, high = intervals.T
        promised = np.array(challenge["confidences"])
        covered = float(np.mean((low <= challenge.truth) & (challenge.truth <= high)))
        excess = covered - float(promised.mean())
        if self.ALLOWED[0] <= excess <= self.ALLOWED[1]:
            return self._why_elsewhere(challenge, low, high)
        why = (
            f"For {len(low)} sets of 25 to 60 simulated ratios your interval holds the true median in {covered:.1%} "
            f"of cases, and promised {promised.mean():.1%}."
        )
        return f"{why} {self._why_off(challenge, low, high, excess, promised)}".strip()

    @staticmethod
    def _why_elsewhere(challenge, low, high) -> str:
        """Right as often as promised, but does each interval speak of its own ratios?

        Bootstraps of all kinds, from 50 resamples on, touch the median of their ratios in all of 1200 sets, and in at
        most one of them are less than a third or more than 2.5 times as wide as the interval between ranks.
        """
        usual = np.array([_between_ranks(*row) for row in challenge.rows()])  # low, lower and upper middle, high
        touching = np.mean((low <= usual[:, 2]) & (usual[:, 1] <= high))
        if not touching >= 0.98:
            return (
                f"As many of your intervals hold the true median as you promised, but only {touching:.0%} of them hold "
                "the median of the very ratios they were made from. What has an interval to do with its ratios?"
            )
        width = usual[:, 3] - usual[:, 0]
        fitting = np.mean((width / 4 <= high - low) & (high - low <= 4 * width))
        if fitting >= 0.95 and np.mean(high - low) <= 2 * np.mean(width):
            return ""
        return (
            "As many of your intervals hold the true median as you promised, but some are far too wide and others far "
            "too narrow: each has to say how sure its own ratios are."
        )

    @staticmethod
    def _why_off(challenge, low, high, excess, promised) -> str:
        """The likely mistake, recognised over all data sets together."""
        rows = [row for row, _ in challenge.rows()]
        if excess > 0:
            ends = np.array([[row.min(), row.max()] for row in rows]).T
            if np.allclose(low, ends[0], rtol=1e-5) and np.allclose(high, ends[1], rtol=1e-5):
                return "Its ends are the smallest and the largest ratio: that holds the median almost always."
            tails = [np.quantile(row, [0.5 - c / 2, 0.5 + c / 2]) for row, c in zip(rows, promised, strict=True)]
            if np.mean(np.ptp(tails, axis=1)) < 1.2 * np.mean(high - low):
                return "It is as wide as the ratios themselves: where single ratios lie, not where their median lies."
            return "It is too wide for what it promises."
        if not np.all(np.isfinite(low) & np.isfinite(high)):
            return "Some of its ends are not finite numbers."
        if np.mean(high - low) < 1e-6:
            return "It has no width: is every resample drawn *with* replacement?"
        middle = (low + high) / 2
        off_median = np.mean([abs(m - np.median(row)) for m, row in zip(middle, rows, strict=True)])
        off_mean = np.mean([abs(m - np.mean(row)) for m, row in zip(middle, rows, strict=True)])
        if off_mean < off_median:
            return "It is centred on the mean of the ratios, and the question is where their *median* lies."
        usual, half = (RatioInterval._width(rows[:100], c[:100]) for c in (promised, 2 * promised - 1))
        if abs(np.mean((high - low)[:100]) / half - 1) < 0.3 * (usual / half - 1):
            return "It misses twice too often: is `1 - confidence` left out on each side, or in all?"
        return "It is too narrow for what it promises, or lies off its place."

    @staticmethod
    def _width(rows, confidences) -> float:
        """Mean width of the percentile bootstrap's intervals, to recognise another by."""
        rng = np.random.default_rng(0)
        medians = (np.median(rng.choice(row, (400, len(row))), axis=1) for row in rows)
        ends = [np.quantile(m, [0.5 - c / 2, 0.5 + c / 2]) for m, c in zip(medians, confidences, strict=True)]
        return float(np.mean(np.ptp(ends, axis=1)))


@dataclass
class CoverageChallenge(Challenge):
    """A challenge of many data sets whose true medians stay with the judge."""

    truth: np.ndarray = field(default_factory=lambda: np.empty(0))

    def rows(self) -> list[tuple[np.ndarray, float]]:
        """(ratios, confidence) of each data set."""
        sets = zip(self["ratios"], self["sizes"], self["confidences"], strict=True)
        return [(row[:size], confidence) for row, size, confidence in sets]


def _between_ranks(ratios: np.ndarray, confidence: float) -> tuple[float, float, float, float]:
    """(low, lower and upper middle, high): the median's interval from the ranks that bound it, without resampling."""
    ordered, n = np.sort(ratios), len(ratios)
    half = NormalDist().inv_cdf(0.5 + confidence / 2) * n**0.5 / 2  # ranks
    low, high = np.interp([(n - 1) / 2 - half, (n - 1) / 2 + half], np.arange(n), ordered)
    return low, ordered[(n - 1) // 2], ordered[n // 2], high


class SpotTheMistake(Exercise):
    """Six described procedures, each with one mistake or none."""

    name = "SPOT_THE_MISTAKE"
    quiz_points = 2
    allowed = (
        "nothing is wrong",
        "the first call is counted",
        "the clock starts while the device is busy",
        "the clock stops before the work is done",
        "the two sides met different machines",
        "one side always goes first",
        "the summary hides most calls",
    )
    key: Mapping[str, str] = {
        "A": "the clock stops before the work is done",
        "B": "the first call is counted",
        "C": "nothing is wrong",
        "D": "the two sides met different machines",
        "E": "the clock stops before the work is done",
        "F": "the summary hides most calls",
    }
    hints = (
        "For each procedure: what happens between its two readings of the clock, and what happened before the first?",
        "Where both readings are sound, look at what is divided by what and when each was measured, and at how many "
        "of the calls the reported number would change with. Must every procedure be wrong, and every mistake occur?",
    )


WHEN_TO_TRUST = MarkScheme(
    name="when_to_trust_a_number",
    points=(
        SchemePoint(
            "The clock is read only after waiting for the device, because a call comes back when the work has been "
            "asked for, not when it is done.",
            earns="I would ask whether they synchronised before each reading: a kernel launch returns at once, so "
            "without that the clock shows the launch.",
            does_not="They must call synchronize.",
        ),
        SchemePoint(
            "The first calls are left out, because they pay once for what all later calls reuse.",
            earns="The first calls compile and fill caches, which the thousandth call does not pay for, so they are "
            "run before counting.",
            does_not="You should always do a warm-up first.",
        ),
        SchemePoint(
            "The two sides are compared in pairs within one run, in changing order, because whatever the machine does "
            "then hits both and cancels in the ratio.",
            earns="41 and 53 ms may come from different times; alternating calls in one run would see the same load, "
            "and it divides out of each ratio.",
            does_not="Ratios are more reliable than absolute times.",
        ),
        SchemePoint(
            "How sure it is, with a number of their own: the measured ratio with its interval or spread, and what "
            "follows from whether that interval contains 1.",
            earns="Mine was 2.02 with a 90% interval of 1.99 to 2.05 from 40 ratios; had it reached below 1, I would "
            "not call it faster.",
            does_not="I measured it many times and the result was stable.",
        ),
        SchemePoint(
            "What the number does not say: another machine, shape, or load for which it may not hold, with a reason.",
            earns="At a batch of 64 the product would be limited by arithmetic instead of bytes, so the ratio need not "
            "hold there.",
            does_not="Of course the result may differ elsewhere.",
        ),
    ),
    samples=(
        Sample(
            "I would not believe 1.29x yet. Was the device waited for before each reading? A call returns once the "
            "work is queued, so otherwise they timed the queueing. Were the first calls left out? They pay for "
            "compiling, later ones do not. 53 and 41 ms from two separate runs may just be two states of the machine; "
            "in alternating pairs both kernels meet the same state and it cancels in each ratio. My own ratio, half "
            "the rows against all, was 2.02, 90% interval 1.99 to 2.05: that excludes 1, so it is faster, here. On a "
            "GPU half the rows may cost nearly the same, because a product this small does not fill it.",
            (True, True, True, True, True),
            "Every point comes with its reason, and the fourth with the learner's own interval.",
        ),
        Sample(
            "A trustworthy benchmark uses warm-up runs and synchronises properly. The first calls are much slower "
            "because the code is compiled and caches are cold, and that happens only once. You should repeat it often "
            "and report the median, because the mean is sensitive to outliers. Ratios are better than absolute "
            "times. I measured a ratio of 1.9, so I trust it.",
            (False, True, False, False, False),
            "Synchronising and ratios are named without their cause, 1.9 comes without an interval, and no limit is "
            "given. The median is a good habit, but no point of this scheme.",
        ),
    ),
)


CHAPTER = Chapter(
    slug="00_measure_honestly",
    title="Measure honestly",
    exercises=(TimeCalls(), MedianAndIqr(), PairedRatio(), RatioInterval(), SpotTheMistake()),
    written=(WHEN_TO_TRUST,),
    libraries=("torch",),
)
