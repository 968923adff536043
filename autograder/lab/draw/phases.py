"""The figures of chapter 01: one request's timeline, waits token by token, and the two phases against length.

All times given are seconds; the axes say what they show. Functions that take the learner's code draw what it gives,
and say in words when it gives nothing that can be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from ..progress import line, patient
from .style import FLOOR, GUESS, axes, course_style, show

__all__ = ["cache_cost", "generation", "request", "sweep", "two_phases", "two_precisions", "waits"]

FIRST, NEXT = "#D55E00", "#0072B2"  # the first token and the tokens after it, in every figure of the chapter
GUESSED = 16, 2048  # the learner's guess is a factor between these two prompt lengths

Floors = Callable[[Sequence[float]], Mapping[float, tuple[float, float]]]
"""Prompt lengths -> length -> (first, next): no first and no further token can come sooner, in seconds."""


@course_style()
def request(sent: float, token_times: Sequence[float], latency_metrics: Callable) -> None:
    """One request's timeline, with the four numbers that `latency_metrics(sent, token_times)` gives."""
    given, complaint = _attempt(latency_metrics, sent, token_times)
    if not complaint and not isinstance(given, dict):
        complaint = f"{_name(latency_metrics)} returned {_in_words(given)}, not a dict"
    given = {} if complaint else given
    figure, ax = axes("One request, and what your code says about it", x="server's clock (s)", y="")
    figure.set_size_inches(7.5, 2.9)
    ax.plot([sent, token_times[-1]], [0, 0], color="#999999", marker="", linewidth=1)
    ax.plot([sent], [0], color="#222222", marker="o", markersize=9)
    ax.plot(token_times, np.zeros(len(token_times)), "|", color=NEXT, markersize=20, markeredgewidth=3)
    for name, moment in [("sent", sent), *((f"{i + 1}", t) for i, t in enumerate(token_times))]:
        ax.annotate(name, (moment, 0), (0, -24), textcoords="offset points", ha="center")
    spans = {key: seconds for key in ("ttft", "e2e") if (seconds := _number(given.get(key))) is not None}
    for height, (key, seconds) in enumerate(spans.items(), start=1):
        _span(ax, sent, seconds, height, f"{key} {seconds:.3g} s", FIRST if key == "ttft" else "#222222")
    rest = [key for key in ("ttft", "e2e", "tpot", "itl") if key not in spans]
    words = complaint or "   ".join(f"{key} = {_in_words(given.get(key))}" for key in rest)
    ax.text(0.01, 0.93, words, transform=ax.transAxes, parse_math=False)
    ax.set_ylim(-1, 4)
    ax.set_yticks([])
    ax.grid(visible=False)
    told = ", ".join(f"{key} {_in_words(given.get(key))}" for key in ("ttft", "tpot", "itl", "e2e"))
    tokens = ", ".join(f"{moment:g}" for moment in token_times)
    show(figure, f"Sent at {sent:g} s, tokens at {tokens} s. {complaint or 'Your code says: ' + told}.")


@course_style()
def waits(seconds: Sequence[float], words: Sequence[str]) -> None:
    """How long a reader waited for each token of an answer: the first wait is prefill, the others are decode."""
    ms = 1e3 * np.array(seconds)
    figure, ax = axes("How long each token was waited for", x="token of the answer", y="milliseconds", log_y=True)
    ax.vlines(range(len(ms)), 0.5 * ms.min(), ms, color=[FIRST] + [NEXT] * (len(ms) - 1), alpha=0.5)
    ax.plot([0], ms[:1], "s", color=FIRST)
    ax.plot(range(1, len(ms)), ms[1:], "o", color=NEXT, markersize=4)
    labels = [word.strip() or repr(word) for word in words]
    ax.set_xticks(range(len(ms)), labels, rotation=90, fontsize=8, parse_math=False)
    ax.set_ylim(0.5 * ms.min(), 3 * ms.max())
    ax.annotate(f"first token: {ms[0]:.0f} ms", (0, ms[0]), (8, -3), textcoords="offset points", color=FIRST)
    after = f"every further token: {np.median(ms[1:]):.0f} ms (median)" if len(ms) > 1 else "no further token"
    ax.text(0.98, 0.92, after, transform=ax.transAxes, ha="right", color=NEXT)
    ax.grid(visible=False, axis="x")
    _plain_numbers(ax.yaxis)
    show(figure, f"One point per token, log scale: first token {ms[0]:.0f} ms, {after}.")


def generation(generate_timed: Callable, model: Any, tokenizer: Any, text: str, *, new_tokens: int) -> None:
    """Run the learner's `generate_timed` on `text`, print what it wrote and fed, and draw how long each token took.

    One call before it is not counted: it pays for what only a process's first forwards pay for.
    """
    from .. import clock, hardware

    ids = tokenizer(text, return_tensors="pt").input_ids.to(hardware.device())
    fed: list[int] = []  # tokens of every forward
    with model.get_input_embeddings().register_forward_hook(lambda _, args, output: fed.append(output.shape[-2])):
        for tokens in (2, new_tokens):
            fed.clear()
            given, complaint = _attempt(generate_timed, model, ids, tokens, sync=hardware.sync, clock=clock)
    try:
        tokens, sent, times = given
        words = [tokenizer.decode([int(token)]) for token in tokens]
        seconds = np.diff([float(sent), *(float(moment) for moment in times)])
    except (TypeError, ValueError):
        print(complaint or f"Nothing to draw: expected (tokens, sent, token_times), got {str(given)[:60]}.")
        return
    print(text + "".join(words))
    print(f"tokens fed, forward by forward: {', '.join(map(str, fed))}")
    if not words or len(words) != len(seconds) or not np.all(seconds > 0):
        print(f"Nothing to draw: {len(words)} tokens, sent and times {[sent, *times]}.")
        return
    waits(seconds, words)


def sweep(
    sweep_prompt_lengths: Callable, generate: Callable, lengths: Sequence[int], **options
) -> dict[int, tuple[float, float]]:
    """Run the learner's sweep, draw both phases and give back what it measured ({} if it cannot be drawn)."""
    say, calls, expected = patient(line), count(1), len(lengths) * (options["repeats"] + 1)

    def told(*args, **named):
        given, done = generate(*args, **named), next(calls)
        say(f"{done} of {expected} generations", done / expected if done <= expected else None)
        return given

    given, complaint = _attempt(sweep_prompt_lengths, told, lengths, **options)
    try:
        measured = {int(length): (float(first), float(later)) for length, (first, later) in given.items()}
    except (TypeError, ValueError, AttributeError):
        print(complaint or f"Nothing to draw: expected {{length: (ttft, tpot)}}, got {str(given)[:60]}.")
        return {}
    if not measured or not all(first > 0 and later > 0 for first, later in measured.values()):
        print(f"Nothing to draw on a log scale: {measured}.")
        return {}
    two_phases(measured)
    return measured


@course_style()
def two_phases(
    measured: Mapping[int, tuple[float, float]],
    floors: Floors | None = None,
    guess: tuple[float, float] | None = None,
    bend: float | None = None,
) -> None:
    """Time to first token and time per further token against prompt length.

    measured: prompt tokens -> (first, next) in seconds. guess: by which factors the learner expected both to grow
    from 16 to 2048 prompt tokens. bend: the length at which the first token's arithmetic outgrows its bytes.
    """
    figure, ax = axes("Two phases", x="prompt tokens", y="milliseconds", log_x=True, log_y=True)
    lengths = sorted(measured)
    for which, label, color, marker in ((0, "first token", FIRST, "s"), (1, "each further token", NEXT, "o")):
        ms = [1e3 * measured[length][which] for length in lengths]
        ax.plot(lengths, ms, color=color, marker="", alpha=0.3)
        ax.plot(lengths, ms, color=color, marker=marker, linestyle="", label=label)
        if floors:
            _plot_floor(ax, floors, lengths, which, color)
        if guess and measured.keys() >= set(GUESSED):
            start, end = GUESSED
            guessed = 1e3 * measured[start][which] * guess[which]
            ax.plot([end], [guessed], **GUESS | {"color": color}, label=f"your guess, {label}")
    if floors:
        ax.plot([], [], **FLOOR, label="floors: the larger of bytes / bandwidth, operations / rate")
    if bend:
        ax.axvline(bend, color="#555555", linestyle=":", linewidth=1.3, label=f"the bend: {bend:.0f} tokens")
    ax.set_xticks(lengths, lengths)
    ax.xaxis.set_minor_formatter(NullFormatter())
    _plain_numbers(ax.yaxis)
    ax.legend(fontsize=9, frameon=True, framealpha=1, edgecolor="none")  # the bend passes behind it
    bent = f" Above about {bend:.0f} tokens arithmetic sets the first token's floor." if bend else ""
    show(figure, "Log scales. " + _told(measured, lengths) + bent)


@course_style()
def two_precisions(
    measured: Mapping[str, Mapping[int, tuple[float, float]]],
    floors: Mapping[str, Floors],
    guess: tuple[float, float] | None = None,
) -> None:
    """Both phases side by side, one curve per number format: name -> prompt tokens -> (first, next) seconds.

    guess: how many times quicker the learner expected the second format to be, for the first token after the
    longest prompt and for further tokens after the shortest.
    """
    figure = Figure(figsize=(8.5, 4))
    panels = figure.subplots(1, 2, sharey=True)
    for which, (ax, title) in enumerate(zip(panels, ("First token", "Each further token"), strict=True)):
        ax.set(title=title, xscale="log", yscale="log", xlabel="prompt tokens (log scale)")
        for (name, curve), color, marker in zip(measured.items(), ("#222222", "#009E73"), "o^", strict=True):
            lengths = sorted(curve)
            ms = [1e3 * curve[length][which] for length in lengths]
            ax.plot(lengths, ms, color=color, marker="", alpha=0.3)
            ax.plot(lengths, ms, color=color, marker=marker, linestyle="", label=name)
            _plot_floor(ax, floors[name], lengths, which, color, label=f"floor, {name}")
        if guess:
            where = lengths[0] if which else lengths[-1]
            before = next(iter(measured.values()))[where][which]
            ax.plot([where], [1e3 * before / guess[which]], **GUESS, label="your guess")
        ax.set_xticks(lengths, lengths)
        ax.xaxis.set_minor_formatter(NullFormatter())
    panels[0].set_ylabel("milliseconds (log scale)")
    panels[1].legend(fontsize=9)
    _plain_numbers(panels[0].yaxis)
    told = [f"{name}: {_told(curve, sorted(curve))}" for name, curve in measured.items()]
    show(figure, "Log scales. " + " ".join(told))


@course_style()
def cache_cost(step: Mapping[int, float], parts: Mapping[str, Mapping[int, float]]) -> None:
    """By how much a decode step grows with the tokens in its cache, and how much of that each part explains.

    step: cached tokens -> seconds. parts: name -> cached tokens -> seconds of that part alone, stacked.
    """
    lengths = sorted(step)
    growth = np.array([1e3 * (step[n] - step[lengths[0]]) for n in lengths])
    figure, ax = axes("What a longer context adds to a decode step", x="tokens in the cache", y="ms added")
    below = np.zeros(len(lengths))
    for (name, part), color in zip(parts.items(), ("#56B4E9", "#E69F00"), strict=True):
        top = below + [1e3 * (part[n] - part[lengths[0]]) for n in lengths]
        ax.fill_between(lengths, below, top, color=color, linewidth=0, label=f"{name}, measured alone")
        below = top
    ax.plot(lengths, growth, color="#222222", marker="o", label="the whole step")
    ax.legend(loc="upper left")
    told = [f"{name} by {1e3 * (part[lengths[-1]] - part[lengths[0]]):.1f} ms" for name, part in parts.items()]
    show(
        figure,
        f"From {lengths[0]} to {lengths[-1]} cached tokens a decode step grows by {growth[-1]:.1f} ms, "
        f"{', '.join(told)}.",
    )


def _plot_floor(ax, floors: Floors, lengths: Sequence[int], which: int, color: str, label: str = "") -> None:
    """The floor of the first (which = 0) or of each further token (1), with its bends between the lengths, too."""
    floor = floors(np.geomspace(lengths[0], lengths[-1], 200).tolist())
    ax.plot(list(floor), [1e3 * times[which] for times in floor.values()], **FLOOR | {"color": color}, label=label)


def _span(ax, start: float, seconds: float, height: float, text: str, color: str) -> None:
    """A labelled stretch of `seconds` from `start`."""
    ax.plot([start, start + seconds], [height, height], color=color, marker="|", markersize=10)
    middle = (start + seconds / 2, height)
    ax.annotate(text, middle, (0, 4), textcoords="offset points", ha="center", color=color)


def _attempt(function: Callable, *args, **options) -> tuple[Any, str | None]:
    """What the learner's function gives, or None and a sentence on why it gives nothing."""
    try:
        return function(*args, **options), None
    except NotImplementedError:
        return None, f"{_name(function)} is not written yet"
    except Exception as error:  # whatever a learner's code raises, the figure says it
        return None, f"{_name(function)} raised {type(error).__name__}: {str(error)[:80]}"


def _name(function: Callable) -> str:
    return getattr(function, "__name__", "your function")


def _number(value: Any) -> float | None:
    """The value as a finite float, or None."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _in_words(value: Any) -> str:
    """A value short enough for a figure."""
    if isinstance(value, list | tuple) and all(_number(item) is not None for item in value):
        return "[" + ", ".join(f"{_number(item):.3g}" for item in value[:6]) + (", ..." if len(value) > 6 else "") + "]"
    number = _number(value)
    return f"{number:.3g} s" if number is not None else str(value)[:40]


def _told(measured: Mapping[int, tuple[float, float]], lengths: Sequence[int]) -> str:
    """The ends of both curves in a sentence."""
    (first, later), (first_end, later_end) = measured[lengths[0]], measured[lengths[-1]]
    return (
        f"From {lengths[0]} to {lengths[-1]} prompt tokens the first token goes from {1e3 * first:.0f} to "
        f"{1e3 * first_end:.0f} ms, each further token from {1e3 * later:.0f} to {1e3 * later_end:.0f} ms."
    )


def _plain_numbers(axis) -> None:
    """10, 100, 1000 instead of powers on a log axis of milliseconds, and no label between them."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
