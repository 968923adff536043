"""The figures of chapter 00: samples and pairs of the lesson, and what the learner's own timing code does.

Functions that take the learner's code run it on a device made of arithmetic and draw what happened, also when the
code is wrong, raises, or is not there yet. Seconds everywhere; milliseconds only on the axes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from matplotlib.figure import Figure

from .style import FLOOR, GUESS, axes, course_style, show

__all__ = [
    "coverage",
    "histogram",
    "measured_ratio",
    "paired_calls",
    "pairs",
    "samples",
    "strips",
    "summary",
    "timed_calls",
]

LINES = ("--", ":", "-.", "-")
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
COLOURS = (ORANGE, GREEN, "#333333", BLUE)


@course_style()
def samples(
    seconds: Sequence[float],
    title: str,
    *,
    lines: Mapping[str, float] | None = None,
    middle_half: tuple[float, float] | None = None,
    guess: tuple[int, float] | None = None,
    busy: range = range(0),
) -> None:
    """Every call's time in the order the calls were made.

    lines: named times (seconds) drawn across. middle_half: both quartiles (seconds), shaded between. guess: a call
    (counted from 1) and a guessed time, drawn there. busy: the calls (counted from 0) during which somebody else used
    the machine.
    """
    figure, ax = axes(title, x="call", y="ms")
    _shade(ax, busy)
    if middle_half is not None:
        half = f"middle half: {_short(middle_half[0])} to {_short(middle_half[1])} ms"
        ax.axhspan(*_ms(middle_half), color=BLUE, alpha=0.25, label=half)
    ax.plot(range(1, len(seconds) + 1), _ms(seconds), "o", label="one call")
    for (name, value), style, colour in zip((lines or {}).items(), LINES, COLOURS, strict=False):
        ax.axhline(value * 1e3, color=colour, linestyle=style, marker="", label=f"{name}: {_short(value)} ms")
    if guess is not None:
        ax.plot(guess[0], guess[1] * 1e3, **GUESS, label="your guess")
    ax.xaxis.get_major_locator().set_params(integer=True)
    _leave_room(ax)
    _legend(ax)
    told = ", ".join(f"{name} {_short(value)} ms" for name, value in (lines or {}).items())
    told += f"; {half}" if middle_half is not None else ""
    show(
        figure,
        f"Times of {len(seconds)} calls in the order they were made: the first took {_short(seconds[0])} ms, the "
        f"others between {_short(min(seconds[1:]))} and {_short(max(seconds[1:]))} ms; {told}.",
    )


@course_style()
def strips(
    groups: Mapping[str, Sequence[float]],
    title: str,
    *,
    honest: float | None = None,
    guess: tuple[str, float] | None = None,
) -> None:
    """One row of dots per named group of times, on a log axis, with the median written above.

    honest: the time (seconds) they should show, drawn as a line. guess: a group's name and the time guessed for it.
    """
    figure, ax = axes(title, x="ms", y="", log_x=True)
    figure.set_figheight(1.8 + 0.5 * len(groups))
    for row, seconds in enumerate(groups.values()):
        ax.plot(_ms(seconds), [row] * len(seconds), "os^DvP"[row % 6], alpha=0.6)
        middle = median(seconds)
        ax.annotate(
            f"{_short(middle)} ms", (middle * 1e3, row), (0, 10), textcoords="offset points", ha="center", fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
    if honest is not None:
        ax.axvline(honest * 1e3, **FLOOR, label=f"honest: {_short(honest)} ms")
    if guess is not None:
        ax.plot(guess[1] * 1e3, list(groups).index(guess[0]), **GUESS, label="your guess")
    ax.margins(x=0.12)
    ax.set_yticks(range(len(groups)), list(groups))
    ax.set_ylim(len(groups) - 0.4, -0.9)
    _plain_log_ticks(ax)
    ax.legend(fontsize=9, loc="lower right", bbox_to_anchor=(1, 1))
    told = "; ".join(f"{name}: {_short(median(seconds))} ms" for name, seconds in groups.items())
    end = f" The honest time is {_short(honest)} ms." if honest else ""
    show(figure, f"Times on a logarithmic axis, medians: {told}.{end}")


@course_style()
def pairs(
    seconds: Sequence[tuple[float, float]],
    names: tuple[str, str],
    *,
    busy: range = range(0),
    guess: float | None = None,
) -> None:
    """Above, both times (seconds) of every pair; below, the first over the second, with their median.

    busy: the pairs (counted from 0) during which somebody else used the machine. guess: the guessed ratio.
    """
    figure = Figure(figsize=(7.5, 5.6))
    top, bottom = figure.subplots(2, 1, sharex=True)
    numbers, ratios = range(1, len(seconds) + 1), [one / other for one, other in seconds]
    for ax in (top, bottom):
        _shade(ax, busy)
    for name, marker, side in zip(names, "os", zip(*seconds, strict=True), strict=True):
        top.plot(numbers, _ms(side), marker, label=name, alpha=0.8)
    bottom.plot(numbers, ratios, "^", color=GREEN, label="one pair")
    middle = median(ratios)
    bottom.axhline(middle, color=GREEN, marker="", label=f"median: {middle:.3g}")
    if guess is not None:
        bottom.plot(len(seconds) / 2 + 0.5, guess, **GUESS, label="your guess")
    top.set(title=f"{len(seconds)} pairs: the times, and their ratios", ylabel="ms")
    bottom.set(xlabel="pair", ylabel=f"{names[0]} / {names[1]}")
    for ax in (top, bottom):
        _leave_room(ax, 1.4)
        ax.legend(fontsize=9, ncols=4, loc="upper left")
    quiet = [ratio for i, ratio in enumerate(ratios) if i not in busy]
    loud = [ratio for i, ratio in enumerate(ratios) if i in busy] or quiet
    show(
        figure,
        f"{len(seconds)} pairs. Median ratio of {names[0]} to {names[1]}: {middle:.3g}; in the quiet pairs "
        f"{median(quiet):.3g}, in the busy ones {median(loud):.3g}.",
    )


@course_style()
def histogram(
    ratios: Sequence[float], medians: Sequence[float], *, interval: tuple[float, float], guess: float
) -> None:
    """How often a resampled median fell where, with the ratios themselves as strokes below.

    interval: its two ends, shaded. guess: a guessed width. The axis shows the medians' range and as much on either
    side; what lies outside is told, not drawn.
    """
    figure, ax = axes("Where the median could have fallen", x="ratio", y="resampled medians")
    middle, (low, high) = median(ratios), interval
    margin = (max(medians) - min(medians)) or 0.01 * middle
    left, right = min(medians) - margin, max(medians) + margin
    ax.axvspan(low, high, color=GREEN, alpha=0.15, zorder=0, label=f"the interval: {low:.3f} to {high:.3f}")
    counts, *_ = ax.hist(medians, bins=40, color=BLUE, alpha=0.6, label=f"{len(medians)} resampled medians")
    inside = sum(left <= ratio <= right for ratio in ratios)
    strokes = f"the ratios, {inside} of {len(ratios)} in view"
    ax.plot(ratios, [-0.06 * max(counts)] * len(ratios), "|", color=ORANGE, ms=12, label=strokes)
    ax.axvline(middle, ymax=0.72, **FLOOR, label=f"their median: {middle:.3f}")
    ends = [middle - guess / 2, middle + guess / 2]
    ax.plot(ends, [max(counts) / 2] * 2, **(GUESS | {"linestyle": "-"}), label=f"your guess: {guess:.3g} wide")
    ax.set(xlim=(left, right), ylim=(-0.13 * max(counts), 1.55 * max(counts)))
    ax.legend(fontsize=9, ncols=2, loc="upper left")
    show(
        figure,
        f"{len(ratios)} ratios between {min(ratios):.3g} and {max(ratios):.3g}, {inside} of them in view; the medians "
        f"of their resamples lie between {min(medians):.3f} and {max(medians):.3f}, the interval from {low:.3f} to "
        f"{high:.3f}. Your guess is {guess:.3g} wide.",
    )


class _Tape:
    """An asynchronous device made of arithmetic that keeps a record of calls and readings (seconds)."""

    def __init__(self, queued: float = 0.0) -> None:
        self.now, self.idle_from = 0.0, queued
        self.calls: list[tuple[str, float, float]] = []  # side, start, seconds
        self.readings: list[tuple[float, bool]] = []  # when, and whether nothing was in the queue

    def enqueue(self, side: str, seconds: float) -> None:
        self.now += 2e-5
        start = max(self.now, self.idle_from)
        self.idle_from = start + seconds
        self.calls.append((side, start, seconds))

    def sync(self) -> None:
        self.now = max(self.now, self.idle_from)

    def clock(self) -> float:
        self.readings.append((self.now, self.idle_from <= self.now))
        return self.now


@course_style()
def timed_calls(time_calls: Callable) -> None:
    """What `time_calls` does on a lazy device: 2 slow warm-up calls, 4 counted ones, somebody's work in the queue."""
    warmup, costs = 2, (0.030, 0.022, 0.006, 0.009, 0.005, 0.008)
    tape = _Tape(queued=0.010)

    def work() -> None:
        tape.enqueue("", costs[min(len(tape.calls), len(costs) - 1)])

    answer = _attempt(time_calls, work, warmup=warmup, repeats=len(costs) - warmup, sync=tape.sync, clock=tape.clock)
    if not tape.calls:
        return
    figure = Figure(figsize=(7.5, 4.8))
    top, bottom = figure.subplots(2, 1, height_ratios=(2, 3))
    top.barh(1, 10, height=0.5, color=GREY, hatch="//", edgecolor="white", label="somebody else's work")
    for i, (_, start, seconds) in enumerate(tape.calls):
        colour, label = (ORANGE, "warm-up call") if i < warmup else (BLUE, "counted call")
        top.barh(
            1, seconds * 1e3, left=start * 1e3, height=0.5, color=colour, edgecolor="white",
            label=label if i in (0, warmup) else None,
        )  # fmt: skip
    for idle, marker, label in ((True, "o", "reading, device idle"), (False, "X", "reading, work in the queue")):
        moments = [when * 1e3 for when, was_idle in tape.readings if was_idle == idle]
        if moments:
            top.plot(moments, [0.3] * len(moments), marker, color=GREEN if idle else "#CC0000", label=label, ms=8)
    early = sum(not idle for _, idle in tape.readings)
    title = f"You read the clock {len(tape.readings)} times, {early} of them with work in the queue"
    top.set(title=title, xlabel="ms on the device", xlim=(-2, None), ylim=(0, 1.4), yticks=[])
    top.legend(ncols=5, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, -0.95), columnspacing=1, handletextpad=0.4)
    true = costs[warmup:]
    bottom.plot(range(1, len(true) + 1), _ms(true), "o", markersize=11, fillstyle="none", color=BLUE, label="the call")
    given = _plain_numbers(answer)
    bottom.plot(range(1, len(given) + 1), _ms(given), "D", color=ORANGE, label="what you returned")
    bottom.set(
        xlabel="sample",
        ylabel="ms",
        ylim=(0, 1.2e3 * max([*true, *given])),
        xticks=range(1, max(len(true), len(given)) + 1),
    )
    _legend(bottom)
    show(
        figure,
        f"Your code made {len(tape.calls)} calls and read the clock {len(tape.readings)} times, {early} of them with "
        f"work in the queue. The counted calls took {_list_ms(true)} ms; you returned {_list_ms(given)} ms.",
    )


@course_style()
def summary(median_and_iqr: Callable) -> None:
    """The two numbers `median_and_iqr` gives for eleven times, drawn over and below the samples.

    The axis is around ten of them, and grows when a number lies elsewhere; an arrow stands for the stall.
    """
    seconds = [0.0121, 0.0118, 0.0127, 0.0119, 0.0131, 0.0125, 0.0122, 0.0480, 0.0134, 0.0120, 0.0140]
    given = _plain_numbers(_attempt(median_and_iqr, list(seconds)))
    if len(given) != 2:
        return
    middle, spread = _ms(given)
    figure, ax = axes(f"median {middle:.2f} ms, spread {spread:.2f} ms", x="ms", y="")
    figure.set_figheight(2.6)
    start, stall = 12.05, max(_ms(seconds))  # where the length of the spread begins: at the middle half of the samples
    left, right = min(11.8, middle, start + spread), max(14.0, middle, start + spread)
    ax.plot(_ms(seconds), [1] * len(seconds), "o", alpha=0.6)
    ax.plot([start, 13.25], [0.8] * 2, color=GREY, lw=3, label="the middle half")
    ax.plot([middle] * 2, [0.75, 1.25], **FLOOR, label="your median")
    ax.plot([start, start + spread], [0, 0], "|-", color=ORANGE, ms=12, label="your spread, as a length")
    ax.set(xlim=(left - 0.1 * (right - left), right + 0.25 * (right - left)), ylim=(-0.5, 1.9))
    ax.set_yticks([1, 0], ["samples", "spread"])
    if stall > ax.get_xlim()[1]:
        ax.annotate(
            f"one stall\nat {stall:.0f} ms", (1, 1), (-62, 0), xycoords=ax.get_yaxis_transform(),
            textcoords="offset points", arrowprops={"arrowstyle": "->"}, va="center", fontsize=9,
        )  # fmt: skip
    ax.legend(fontsize=9, ncols=2, loc="upper left")
    show(
        figure,
        "Eleven times from 11.8 to 48 ms; your median is "
        f"{given[0] * 1e3:.4g} ms, your spread {given[1] * 1e3:.4g} ms.",
    )


@course_style()
def paired_calls(paired_ratio: Callable) -> None:
    """What `paired_ratio` does on a device that slows down by 6% per call; the true ratio is 2."""
    tape, usual = _Tape(), {"baseline": 0.010, "candidate": 0.005}

    def call(side: str) -> None:
        tape.enqueue(side, usual[side] * 1.06 ** len(tape.calls))

    answer = _attempt(
        paired_ratio, lambda: call("baseline"), lambda: call("candidate"), pairs=6, sync=tape.sync, clock=tape.clock
    )
    if not tape.calls:
        return
    given = _plain_numbers(None if answer is None else [answer])
    said = f"you say {given[0]:.3f}" if given else "you returned no number"
    figure, ax = axes(f"The candidate is twice as fast; {said}", x="call, in the order you made them", y="ms")
    for side, marker, colour in (("baseline", "o", BLUE), ("candidate", "s", ORANGE)):
        made = [(i + 1, seconds * 1e3) for i, (who, _, seconds) in enumerate(tape.calls) if who == side]
        if made:
            ax.plot(*zip(*made, strict=True), marker, color=colour, label=side)
    for i in range(0, len(tape.calls) - 1, 2):
        ax.plot([i + 1, i + 2], [call[2] * 1e3 for call in tape.calls[i : i + 2]], color=GREY, marker="", zorder=0)
    ax.set_ylim(bottom=0)
    _legend(ax)
    order = "".join("A" if side == "baseline" else "B" for side, *_ in tape.calls)
    show(figure, f"Order of your calls (A baseline, B candidate): {order}. The true ratio is 2; {said}.")


@course_style()
def coverage(ratio_interval: Callable, *, confidence: float = 0.8) -> None:
    """Intervals of `ratio_interval` for 40 simulated data sets of 40 ratios whose true median is 1.5."""
    import torch

    data, generator = (torch.Generator().manual_seed(0) for _ in range(2))  # the data do not depend on the answer
    truth, intervals, started = 1.5, [], time.perf_counter()
    for _ in range(40):
        ratios = (truth * (0.5 * torch.randn(40, generator=data)).exp()).tolist()
        interval = _plain_numbers(_attempt(ratio_interval, ratios, confidence=confidence, rng=generator))
        if len(interval) != 2:
            return
        intervals.append(interval)
    each = (time.perf_counter() - started) / len(intervals)
    held = [low <= truth <= high for low, high in intervals]
    title = f"{sum(held)} of {len(held)} intervals hold the true median; promised: {confidence:.0%}"
    figure, ax = axes(title, x="simulated data set", y="ratio")
    for hit, colour, marker, label in ((True, BLUE, "o", "holds it"), (False, ORANGE, "X", "misses it")):
        rows = [i for i, inside in enumerate(held) if inside == hit]
        ax.vlines(
            [i + 1 for i in rows], *zip(*[intervals[i] for i in rows], strict=True), color=colour
        ) if rows else None
        ax.plot([i + 1 for i in rows], [sum(intervals[i]) / 2 for i in rows], marker, color=colour, label=label)
    ax.axhline(truth, **FLOOR, label=f"true median, {truth}")
    ax.set_ylim(0, 1.3 * max(truth, *(high for _, high in intervals)))
    _legend(ax)
    show(figure, f"{title}. One call of ratio_interval took {each * 1e3:.2g} ms.")
    print(f"one call of ratio_interval took {each * 1e3:.2g} ms")


@course_style()
def measured_ratio(
    paired_ratio: Callable,
    ratio_interval: Callable,
    baseline: Callable,
    candidate: Callable,
    *,
    sync: Callable,
    clock: Callable,
    confidence: float = 0.9,
) -> None:
    """Forty ratios of two real pieces of work, measured by the learner's code, with the learner's interval."""
    import torch

    for work in (baseline, candidate) * 3:
        work()
    ratios = []
    for _ in range(40):
        ratio = _attempt(paired_ratio, baseline, candidate, pairs=2, sync=sync, clock=clock)
        if ratio is None or not _plain_numbers([ratio]):
            return
        ratios.append(float(ratio))
    middle, told = median(ratios), f"median ratio {median(ratios):.3f}"
    rng = torch.Generator().manual_seed(0)
    interval = _plain_numbers(_attempt(ratio_interval, ratios, confidence=confidence, rng=rng))
    panels = 2 if len(interval) == 2 else 1
    figure = Figure(figsize=(7.5, 4.2))
    everything, *close_up = figure.subplots(1, panels, squeeze=False)[0]
    for ax in (everything, *close_up):
        ax.plot(range(1, len(ratios) + 1), ratios, "^", color=GREEN, alpha=0.8, label="ratio of two pairs")
        ax.axhline(middle, color=GREEN, marker="", label="their median")
        ax.set_xlabel("measurement (two pairs each)")
    everything.axhline(1.0, **FLOOR, label="1: no difference")
    everything.set(ylabel="baseline / candidate", ylim=(0, 1.35 * max(1.0, *ratios)))
    everything.legend(fontsize=9, loc="upper left", ncols=3 - panels)
    for ax in close_up:
        low, high = sorted(interval)
        told += f", {confidence:.0%} interval {low:.3f} to {high:.3f}"
        ax.axhspan(low, high, color=GREEN, alpha=0.2, label=f"{confidence:.0%} interval: {low:.3f} to {high:.3f}")
        bottom, top = min(low, middle), max(high, middle)
        margin = (top - bottom) or 0.01 * middle
        ax.set(title="the same, near the interval", ylim=(bottom - margin, top + 2 * margin))
        ax.title.set_fontsize(10.5)
        ax.legend(*([part[-1]] for part in ax.get_legend_handles_labels()), fontsize=9, loc="upper right")
    everything.set_title(f"Your ratio, just now: {middle:.3f}")
    show(figure, f"{len(ratios)} measured ratios: {told}.")
    print(f"{told}, from {len(ratios)} ratios")


def _attempt(function: Callable, *args, **kwargs):
    """What the learner's function returns; None, and a line that says why, when it does not."""
    name = getattr(function, "__name__", "your function")
    try:
        return function(*args, **kwargs)
    except NotImplementedError:
        print(f"{name} is not answered yet")
    except Exception as error:
        print(f"{name} raised {type(error).__name__}: {error}")
    return None


def _plain_numbers(value) -> list[float]:
    """The value as a list of finite floats; empty, and a line that says what came, when it is none."""
    if value is None:
        return []
    try:
        numbers = [float(item) for item in value]
    except (TypeError, ValueError):
        numbers = [math.nan]
    if all(map(math.isfinite, numbers)):
        return numbers
    print(f"your code returned {value!r}"[:200])
    return []


def _ms(seconds: Sequence[float]) -> list[float]:
    return [value * 1e3 for value in seconds]


def _list_ms(seconds: Sequence[float]) -> str:
    return ", ".join(f"{value * 1e3:.3g}" for value in seconds) or "nothing"


def _shade(ax, busy: range) -> None:
    if busy:
        ax.axvspan(busy.start + 0.5, busy.stop + 0.5, color="#EEEEEE", label="somebody else computes", zorder=0)


def _short(seconds: float) -> str:
    """Milliseconds with three digits, never in powers of ten."""
    value = seconds * 1e3
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _leave_room(ax, factor: float = 1.15) -> None:
    """An axis from 0 to a little above the largest value."""
    ax.set_ylim(0, factor * ax.dataLim.y1)


def _legend(ax) -> None:
    ax.legend(fontsize=9, loc="best")


def _plain_log_ticks(ax) -> None:
    """1, 2, 5 written out where the axis spans little, powers of ten where it spans much."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 200 else (1.0,)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
