"""The figures of chapter 02: a layer's matrices, a machine's roofline, what a step's time is made of, known ceilings.

Seconds, bytes and operations come in; the axes say what they show. Functions that take the learner's code draw what it
gives, and say in words when it gives nothing that can be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import LogLocator

from .phases import _attempt, _in_words, _number, _plain_numbers
from .style import FLOOR, GUESS, axes, course_style, show
from .timing import _plain_log_ticks

__all__ = ["ceilings", "floors", "forwards", "layer_map", "operations_per_token", "per_model", "roofline", "step_parts"]

BLUE, ORANGE, GREEN, PALE, GREY = "#0072B2", "#D55E00", "#009E73", "#56B4E9", "#999999"
SERIES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), ("#222222", "D"))
NEAR = {"textcoords": "offset points", "fontsize": 8.5}
BELOW = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2, "fontsize": 9}
"""A legend under the axes, where it hides neither a point nor a line."""
PARTS = {
    "measured": BLUE,
    "the whole step": BLUE,
    "floor": PALE,
    "its bytes / bandwidth": PALE,
    "its products alone": "#F0C987",
    "overhead": GREEN,
    "same depth, tiny matrices": GREEN,
}
"""What explains a step's time, in the order of the bars: one quantity has one colour in lesson and assignment."""
BATCHES = tuple(2**power for power in range(13))

Work = tuple[float, float, float]
"""Operations, bytes, seconds."""


@course_style()
def layer_map(config: Any) -> None:
    """The matrices of one layer drawn to scale, rows by columns, in the order a token passes them."""
    sizes, hidden, layers = _matrices(config), config.hidden_size, config.num_hidden_layers
    tall, gap = 2 * config.intermediate_size + 0.4 * hidden, 0.42 * hidden
    figure = Figure(figsize=(8.6, 5.0))
    ax = figure.subplots()
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title("One layer: seven matrices, each met by every token", x=0.0, ha="left")
    places, x = {"token": (-2.2 * gap, tall / 2, 1.1 * gap)}, 0.0
    ax.text(-1.2 * gap, tall / 2, f"a token's\nvector,\n{hidden:,}", ha="right", va="center", fontsize=8.5)
    for stack in (("q", "k", "v"), ("attention",), ("o",), ("gate", "up"), ("down",)):
        shapes = [sizes.get(name, (hidden, 1.45 * hidden)) for name in stack]
        top = tall / 2 + (sum(high for high, _ in shapes) + 0.2 * hidden * (len(stack) - 1)) / 2
        for name, (high, wide) in zip(stack, shapes, strict=True):
            _matrix(ax, name, x, top - high, wide, high, sizes.get(name))
            places[name] = x, top - high / 2, wide
            top -= high + 0.2 * hidden
        x += shapes[0][1] + gap
    places["after"] = x, tall / 2, 0
    ax.text(x, tall / 2, " +", va="center", fontsize=12)
    for tail, heads in _ARROWS.items():
        for head in heads:
            (x0, y0, w0), (x1, y1, _) = places[tail], places[head]
            ax.add_patch(FancyArrowPatch((x0 + w0, y0), (x1, y1), arrowstyle="->", mutation_scale=9, color=GREY))
    head, weights = config.vocab_size * hidden, sum(high * wide for high, wide in sizes.values())
    ax.text(-2.8 * gap, 0.93 * tall, "blue: attention's matrices\norange: the MLP's", va="center", fontsize=9)
    words = (
        f"{weights / 1e6:,.2f} million weights, {layers} times over; then once the head, {config.vocab_size:,} x "
        f"{hidden:,}: {head / 1e6:,.1f} million"
    )
    ax.text(-2.8 * gap, -0.03 * tall, words, va="top", fontsize=9.5)
    ax.set(xlim=(-2.9 * gap, x + 0.6 * gap), ylim=(-0.1 * tall, 1.01 * tall))
    told = ", ".join(f"{name} {high:,} x {wide:,}" for name, (high, wide) in sizes.items())
    show(
        figure,
        f"Matrices of one layer, rows x columns: {told}. Between q, k, v and o stands attention, which has no weights. "
        f"The layer repeats {layers} times; the head, {config.vocab_size:,} x {hidden:,}, follows once.",
    )


_ARROWS = {
    "token": ("q", "k", "v"),
    "q": ("attention",),
    "k": ("attention",),
    "v": ("attention",),
    "attention": ("o",),
    "o": ("gate", "up"),
    "gate": ("down",),
    "up": ("down",),
    "down": ("after",),
}


def _matrices(config: Any) -> dict[str, tuple[int, int]]:
    """Rows and columns of a layer's matrices, by name."""
    hidden, wide = config.hidden_size, config.intermediate_size
    size = getattr(config, "head_dim", None) or hidden // config.num_attention_heads
    queries, kv = config.num_attention_heads * size, config.num_key_value_heads * size
    attention = {"q": (queries, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, queries)}
    return attention | {"gate": (wide, hidden), "up": (wide, hidden), "down": (hidden, wide)}


def _matrix(ax, name: str, x: float, y: float, wide: float, high: float, size: tuple[int, int] | None) -> None:
    """One rectangle with its name, and its shape where it is a matrix of weights."""
    color = {"facecolor": "white", "edgecolor": GREY, "linestyle": "--"}
    if size:
        color = {"facecolor": PALE if name in "qkvo" else "#F0C987", "edgecolor": "#444444"}
    ax.add_patch(Rectangle((x, y), wide, high, linewidth=0.9, **color))
    words = (
        f"{name}\n{size[0]:,} x {size[1]:,}" if size else "attention\nover the keys and\nvalues so far\n(no weights)"
    )
    if size and high < 0.4 * wide:
        words = words.replace("\n", "  ")
    ax.text(x + wide / 2, y + high / 2, words, ha="center", va="center", fontsize=8, linespacing=1.3)


@course_style()
def roofline(
    machine: Any,
    series: Mapping[str, Mapping[str, Work]],
    *,
    operations: float,
    guess: tuple[float, float] | None = None,
    title: str = "Your machine's roof, and what runs under it",
) -> None:
    """Operations per second against operations per byte, with the two limits of a machine.

    series: name -> label of a point -> (operations, bytes, seconds). operations: the machine's, in the dtype used.
    guess: operations per byte, and the share of the roof guessed for it.
    """
    figure, ax = axes(title, x="operations per byte", y="billion operations per second", log_x=True, log_y=True)
    figure.set_figheight(5.4)
    ridge = operations / machine.bandwidth
    points = {name: _points(works) for name, works in series.items()}
    left = 0.5 * min(x for xs, _ in points.values() for x in xs)
    right = 3 * max(ridge, *(x for xs, _ in points.values() for x in xs))
    xs = np.array([left, ridge, right])
    roof = np.minimum(xs * machine.bandwidth, operations) / 1e9
    ax.plot(xs, roof, **FLOOR, label="the roof: bytes' limit, then operations'")
    ax.axvline(
        ridge, color="#555555", linestyle=":", linewidth=1.3, label=f"the ridge: {ridge:.2g} operations per byte"
    )
    for i, ((name, (px, py)), (color, marker)) in enumerate(zip(points.items(), SERIES, strict=False)):
        ax.plot(px, py, color=color, marker="", alpha=0.3)
        ax.plot(px, py, color=color, marker=marker, linestyle="", label=name)
        stacked = max(px) < 1.05 * min(px)  # above one another: labels right and left of them in turn
        for rank, (y, x, label) in enumerate(sorted(zip(py, px, series[name], strict=True))):
            side = -1 if (stacked and rank % 2) or i == 3 else 1
            place = (6 * side, -3 if stacked else 6 if i == 3 else -11)
            ax.annotate(label, (x, y), place, **NEAR, color=color, ha="left" if side > 0 else "right")
    if guess:
        x, share = guess
        ax.plot([x], [share * min(x * machine.bandwidth, operations) / 1e9], **GUESS, label="your guess")
    lowest = min(y for _, ys in points.values() for y in ys)
    ax.set(xlim=(left, right), ylim=(0.4 * min(lowest, roof[0]), 3 * operations / 1e9))
    _plain_log_ticks(ax)
    _plain_numbers(ax.yaxis)
    ax.legend(**BELOW)
    told = [
        f"{name}: " + ", ".join(f"{label} {y:.3g} at {x:.2g}" for label, x, y in zip(series[name], *pts, strict=True))
        for name, pts in points.items()
    ]
    show(
        figure,
        f"Log scales. The roof rises at {machine.bandwidth / 1e9:.0f} billion bytes per second up to the ridge at "
        f"{ridge:.2g} operations per byte, and is flat at {operations / 1e9:.0f} billion operations per second. "
        f"Billion operations per second at operations per byte: {'; '.join(told)}.",
    )


def _points(works: Mapping[str, Work]) -> tuple[list[float], list[float]]:
    """Operations per byte and billion operations per second of each work."""
    return [o / b for o, b, _ in works.values()], [o / s / 1e9 for o, _, s in works.values()]


@course_style()
def forwards(
    measured: Mapping[str, Mapping[int, float]],
    thin: Mapping[int, float],
    floor: Callable[[int], tuple[float, float]],
    *,
    guess: tuple[int, float] | None = None,
) -> None:
    """Time of one forward against the rows in it, between the three things that can set it.

    measured: kind of forward -> rows -> seconds. thin: rows -> seconds of the model with tiny matrices.
    floor: rows -> (seconds of the bytes, seconds of the operations). guess: rows, and seconds guessed for thin.
    """
    title = "One forward, and the three things that can set its time"
    figure, ax = axes(title, x="rows in the forward, tokens of all requests", y="milliseconds", log_x=True, log_y=True)
    figure.set_figheight(5.4)
    rows = sorted({row for curve in measured.values() for row in curve})
    xs = np.geomspace(rows[0], rows[-1], 100)
    reading, computing = (np.array([1e3 * floor(x)[which] for x in xs]) for which in (0, 1))
    ax.plot(xs, reading, **FLOOR, label="bytes / bandwidth")
    ax.plot(xs, computing, **FLOOR | {"linestyle": ":"}, label="operations / rate")
    for (name, curve), (color, marker) in zip(measured.items(), SERIES, strict=False):
        ax.plot(list(curve), [1e3 * s for s in curve.values()], color=color, marker=marker, alpha=0.9, label=name)
    ax.plot(list(thin), [1e3 * s for s in thin.values()], color=GREEN, marker="^", label="same depth, tiny matrices")
    if guess:
        ax.plot([guess[0]], [1e3 * guess[1]], **GUESS, label="your guess")
    ax.set_xticks(rows, rows)
    ax.tick_params(axis="x", labelsize=9)
    ax.minorticks_off()
    for axis in (ax.xaxis, ax.yaxis):
        _plain_numbers(axis)
    ax.legend(**BELOW)
    ends = [f"{name} from {_ms(min(curve.values()))} to {_ms(max(curve.values()))}" for name, curve in measured.items()]
    show(
        figure,
        f"Log scales. {'; '.join(ends)}. The thin model takes {_ms(min(thin.values()))} to {_ms(max(thin.values()))}. "
        f"Bytes alone would take {reading[0]:.3g} ms, operations alone {computing[0]:.3g} to {computing[-1]:.3g} ms.",
    )


@course_style()
def step_parts(parts: Mapping[str, float], *, guess: tuple[str, float] | None = None) -> None:
    """Seconds of a step and of what could explain it, one bar each: they are compared, not added.

    parts: name, one of PARTS, -> seconds. guess: a part, and the seconds guessed for it. A dict that does not hold
    numbers, the whole step among them, is told in words.
    """
    seconds = {name: _number(parts[name]) for name in PARTS if name in parts} if isinstance(parts, Mapping) else {}
    if PARTS.get(next(iter(seconds), "")) != BLUE or None in seconds.values():
        print(f"Nothing to draw: {str(parts)[:100]}")
        return
    whole = next(iter(seconds.values())) or 1.0
    figure, ax = axes("A decode step, and what could explain it", x="milliseconds", y="")
    figure.set_figheight(1.3 + 0.5 * len(seconds))
    for row, (name, value) in enumerate(seconds.items()):
        ax.barh(row, 1e3 * value, height=0.6, color=PARTS[name], edgecolor="#444444")
        share = "" if row == 0 else f", {value / whole:.0%} of the step"
        right = max(value, guess[1] if guess and guess[0] == name else 0, 0)  # of the bar, and of the guess
        ax.annotate(f"{_ms(value)}{share}", (1e3 * right, row), (9, 0), textcoords="offset points", va="center")
    if guess:
        ax.plot([1e3 * guess[1]], [list(seconds).index(guess[0])], **GUESS, label="your guess")
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize=9)
    ax.set_yticks(range(len(seconds)), list(seconds))
    ax.set_ylim(len(seconds) - 0.4, -0.6)
    ax.set_xlim(0, 1.35e3 * max(*seconds.values(), guess[1] if guess else 0, 1e-9))
    ax.grid(visible=False, axis="y")
    show(figure, "; ".join(f"{name}: {_ms(value)}" for name, value in seconds.items()) + ".")


@course_style()
def ceilings(
    speeds: Mapping[str, Mapping[str, float]],
    *,
    reached: Sequence[tuple[str, float, str]] = (),
    guess: tuple[str, float] | None = None,
) -> None:
    """Tokens per second that no single request can exceed: one row per machine, one marker per model.

    speeds: machine -> model -> tokens per second. reached: (machine, tokens per second, what it is), drawn as crosses.
    guess: a machine, and the speed guessed for the last model there.
    """
    figure, ax = axes("How fast one request could possibly go", x="tokens per second", y="", log_x=True)
    figure.set_figheight(1.6 + 0.3 * len(speeds))
    models = list(dict.fromkeys(model for row in speeds.values() for model in row))
    for (color, marker), model in zip(SERIES, models, strict=False):
        found = [(row[model], y) for y, row in enumerate(speeds.values()) if model in row]
        ax.plot(*zip(*found, strict=True), marker, color=color, label=model)
    for (machine, speed, what), color in zip(reached, ("#CC0000", "#7A0177", "#333333"), strict=False):
        label = f"reached: {what}, {speed:g}"
        ax.plot([speed], [list(speeds).index(machine)], "x", color=color, ms=9, mew=2, label=label)
    if guess:
        ax.plot([guess[1]], [list(speeds).index(guess[0])], **GUESS, label="your guess")
    ax.set_yticks(range(len(speeds)), list(speeds))
    ax.set_ylim(len(speeds) - 0.5, -0.5)
    _plain_numbers(ax.xaxis)
    ax.legend(fontsize=8.5, loc="upper left", bbox_to_anchor=(1, 1))
    figure.set_figwidth(8.6)
    told = ["; ".join(f"{model} {speed:.3g}" for model, speed in row.items()) for row in speeds.values()]
    rows = ". ".join(f"{machine}: {words}" for machine, words in zip(speeds, told, strict=True))
    extra = "".join(f" {what} on {machine} reached {speed:.3g}." for machine, speed, what in reached)
    show(figure, f"Tokens per second at the ceiling, log scale. {rows}.{extra}")


@course_style()
def per_model(function: Callable, configs: Mapping[str, Any], *args, unit: str, scale: float, **options) -> None:
    """What a learner's `function(config, *args)` says of each model: one bar each, in `unit` (the value over scale)."""
    values, complaint = {}, None
    for name, config in configs.items():
        given, complaint = _attempt(function, config, *args, **options)
        values[name] = _number(given)
        if complaint or values[name] is None:
            print(complaint or f"Nothing to draw: for {name} your code returned {_in_words(given)}.")
            return
    figure, ax = axes(f"What your {getattr(function, '__name__', 'function')} says", x=unit, y="")
    figure.set_figheight(1.2 + 0.32 * len(values))
    bars = [value / scale for value in values.values()]
    ax.barh(range(len(bars)), bars, height=0.6, color=BLUE)
    for row, value in enumerate(bars):
        ax.annotate(_digits(value), (max(value, 0), row), (4, 0), textcoords="offset points", va="center", fontsize=9)
    ax.set_yticks(range(len(bars)), list(values))
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.set_xlim(min(0, *bars), 1.15 * max(*bars, 1e-9))
    ax.grid(visible=False, axis="y")
    show(
        figure,
        f"{unit}: " + ", ".join(f"{name} {_digits(value)}" for name, value in zip(values, bars, strict=True)) + ".",
    )


@course_style()
def operations_per_token(prefill_flops: Callable, config: Any, lengths: Sequence[int]) -> None:
    """What `prefill_flops` says, per token of the prompt, against the prompt's length."""
    values = []
    for tokens in lengths:
        given, complaint = _attempt(prefill_flops, config, tokens)
        if complaint or (value := _number(given)) is None or value <= 0:
            print(complaint or f"Nothing to draw: for {tokens} tokens your code returned {_in_words(given)}.")
            return
        values.append(value / tokens / 1e9)
    labels = {"x": "prompt tokens", "y": "billion operations per token"}
    figure, ax = axes("What your prefill_flops says", **labels, log_x=True)
    ax.plot(lengths, values, "o-", color=BLUE)
    for length, value in zip(lengths, values, strict=True):
        ax.annotate(f"{value:.3g}", (length, value), (0, 7), textcoords="offset points", ha="center", fontsize=8.5)
    ax.set_xticks(lengths, lengths)
    ax.set_ylim(0, 1.2 * max(values))
    ax.minorticks_off()
    told = ", ".join(f"{length}: {value:.3g}" for length, value in zip(lengths, values, strict=True))
    show(figure, f"Billion operations per token of the prompt, by its length: {told}.")


@course_style()
def floors(
    decode_floor_seconds: Callable,
    config: Any,
    machine: Any,
    contexts: Sequence[int],
    *,
    crossover_batch: Callable | None = None,
    **sizes: float,
) -> None:
    """What `decode_floor_seconds` says against the batch, a curve per context; with `crossover_batch`, its answers.

    sizes: bytes_per_weight and bytes_per_kv.
    """
    labels = {"x": "requests in the batch", "y": "milliseconds per step"}
    figure, ax = axes(f"What your code says of {machine.name}", **labels, log_x=True, log_y=True)
    told = []
    for context, (color, marker) in zip(contexts, SERIES, strict=False):
        step = {}
        for batch in BATCHES:
            options = {"context": context, "batch": batch} | sizes
            given, complaint = _attempt(decode_floor_seconds, config, machine, **options)
            step[batch] = _number(given)
            if complaint or step[batch] is None or step[batch] <= 0:
                print(complaint or f"Nothing to draw: {options} gives {_in_words(given)}.")
                return
        words = f"context {context}"
        if crossover_batch:
            given, complaint = _attempt(crossover_batch, config, machine, context=context, **sizes)
            if complaint:
                print(complaint)
                return
            words += f": crossover {given if given is None else f'{given:g}' if _number(given) else given}"
            if (where := _number(given)) and where > 0:
                ax.axvline(where, color=color, linestyle=":", linewidth=1.5)
        ax.plot(list(step), [1e3 * s for s in step.values()], color=color, marker=marker, label=words)
        told.append(f"{words}: from {_ms(step[1])} to {_ms(step[BATCHES[-1]])}")
    ax.set_xticks(BATCHES[::2], BATCHES[::2])
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    for axis in (ax.xaxis, ax.yaxis):
        _plain_numbers(axis)
    ax.legend()
    show(figure, f"Log scales. A step's floor from 1 to {BATCHES[-1]} requests. {'; '.join(told)}.")


def _ms(seconds: float) -> str:
    return f"{_digits(1e3 * seconds)} ms"


def _digits(value: float) -> str:
    """A number in three digits, or in all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
