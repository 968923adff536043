"""The figures of chapter 05: what rounding weights does, in weights, distributions, bytes and seconds.

KL is in nats, sizes are bits per weight or bytes, times are seconds; the axes say what they show. Functions that take
the learner's code draw what it gives, and say in words when it gives nothing that can be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from .memory import BLUE, GREEN, GREY, ORANGE, PURPLE
from .phases import _attempt, _number
from .style import FLOOR, GUESS, axes, course_style, show

__all__ = [
    "choices",
    "effective_bits",
    "frontier",
    "group_levels",
    "group_sizes",
    "kl_of_the_unlikely",
    "on_the_grid",
    "one_group",
    "packed_bytes",
    "perplexity_windows",
    "quality_by_bits",
    "through_the_layers",
    "unpacking",
]

STYLES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PURPLE, "D"))
KERNELS = dict(zip(("bfloat16, library", "8 bits, fused", "4 bits, fused", "4 bits, library"), STYLES, strict=True))


@course_style()
def one_group(weights: Any, stored: Any, guess: float | None = None) -> None:
    """A group of weights and where rounding puts them; guess: the usual error as a share of a usual weight."""
    weights, stored = (np.asarray(x.detach().float().cpu()).ravel() for x in (weights, stored))
    levels, error = np.unique(stored), stored - weights
    rms = float(np.sqrt((error**2).mean() / (weights**2).mean()))
    figure = Figure(figsize=(8.5, 3.9))
    left, right = figure.subplots(1, 2, width_ratios=(5, 1.6))
    for level in levels:
        left.axhline(level, color=GREY, linewidth=0.7, zorder=0)
    places = np.arange(1, len(weights) + 1)
    left.vlines(places, weights, stored, color=ORANGE, linewidth=1.6)
    left.plot(places, weights, "o", color=BLUE, markersize=5, label="weight")
    left.plot(places, stored, "_", color=ORANGE, markersize=9, markeredgewidth=2, label="stored: the nearest level")
    left.set(xlabel="weight of the group", ylabel="value", xlim=(0, len(weights) + 1))
    left.set_title("Every weight moves to the nearest level")
    left.grid(visible=False)
    left.set_ylim(weights.min() - 0.1 * np.ptp(weights), weights.max() + 0.3 * np.ptp(weights))
    left.legend(fontsize=9, loc="upper left", ncols=2)
    right.bar([0], [100 * rms], width=0.5, color=ORANGE)
    right.annotate(f"{rms:.1%}", (0, 100 * rms), (0, 4), textcoords="offset points", ha="center")
    if guess is not None:
        right.plot([0], [100 * guess], **GUESS, label=f"your guess, {guess:.0%}")
        right.legend(fontsize=9, loc="upper center")
    right.set(xlim=(-0.6, 0.6), xticks=[], ylim=(0, 1.5 * max(100 * rms, 100 * (guess or 0))))
    right.set(ylabel="% of a usual weight (both rms)")
    right.set_title("Error")
    right.grid(visible=False, axis="x")
    show(
        figure,
        f"{len(weights)} weights between {weights.min():.3f} and {weights.max():.3f} move to {len(levels)} of the "
        f"levels; the usual (root mean square) error is {rms:.1%} of a usual weight.",
    )


@course_style()
def through_the_layers(errors: Mapping[int, Sequence[float]], guess: float | None = None) -> None:
    """Relative error of the hidden state after each layer, per number of bits; guess: at 4 bits, after the last."""
    figure, ax = axes("The error grows on its way", x="after layer", y="error / hidden state (rms)", log_y=True)
    for (bits, error), (color, marker) in zip(errors.items(), STYLES, strict=False):
        layers = range(1, len(error) + 1)
        ax.plot(layers, error, color=color, marker=marker, markersize=4, label=f"{bits} bits")
        ax.annotate(f"{error[-1]:.1%}", (len(error), error[-1]), (8, -4), textcoords="offset points", color=color)
    if guess:
        ax.plot([len(error)], [guess], **GUESS, label=f"your guess, 4 bits: {guess:.0%}")
    lowest, highest = (pick(pick(error) for error in errors.values()) for pick in (min, max))
    ax.set(xlim=(0, len(error) + 3.2), ylim=(lowest / 1.5, max(highest, guess or 0) * 3))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.1%}" if value < 0.01 else f"{value:.0%}")
    ax.legend(fontsize=9, ncols=2, loc="upper left")
    told = "; ".join(
        f"{bits} bits: {error[0]:.1%} after the first, {error[-1]:.1%} after the last" for bits, error in errors.items()
    )
    show(figure, f"Error of the hidden state relative to it, averaged over positions. {told}.")


@course_style()
def quality_by_bits(
    kl: Mapping[int, tuple[float, float]],
    perplexity: Mapping[int, float],
    reference: float,
    guess: float | None = None,
) -> None:
    """KL (mean, standard error) and perplexity against bits; guess: by which factor the KL grows from 5 bits to 4."""
    figure = Figure(figsize=(9, 4.1))
    left, right = figure.subplots(1, 2)
    bits = sorted(kl)
    means, errors = (np.array([kl[b][i] for b in bits]) for i in (0, 1))
    left.errorbar(bits, means, yerr=2 * errors, color=BLUE, marker="o", capsize=3, label="mean KL, ± 2 standard errors")
    line = [kl[bits[-1]][0] * 4.0 ** (bits[-1] - b) for b in bits]
    left.plot(bits, line, **FLOOR, label="x 4 for each bit less")
    if guess:
        left.plot([4], [kl[5][0] * guess], **GUESS, label=f"your guess, x {guess:g} from 5 to 4")
    left.set(xlabel="bits", ylabel="KL from the reference (nats, log scale)", yscale="log", xticks=bits)
    left.set_ylim(means.min() / 2, max(*means, *line) * 6)
    left.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    left.set_title("How far the distributions move")
    left.legend(fontsize=9, loc="upper right")
    shown = [b for b in bits if perplexity[b] < 4 * reference]
    right.plot(shown, [perplexity[b] for b in shown], color=ORANGE, marker="s", label="quantized")
    right.axhline(reference, **FLOOR)
    right.text(bits[-1], reference, f"reference {reference:.1f}", ha="right", va="bottom", fontsize=9)
    top = max(perplexity[b] for b in shown)
    for b in set(bits) - set(shown):
        right.text(b, top, f"{b} bits:\n{perplexity[b]:,.0f}", ha="center", va="top", fontsize=9, color=ORANGE)
    right.set(xlabel="bits", ylabel="perplexity", xticks=bits, xlim=(bits[0] - 0.6, bits[-1] + 0.4))
    right.set_ylim(0.9 * min(reference, *(perplexity[b] for b in shown)), 1.1 * top)
    right.set_title("How well the text is predicted")
    told = ", ".join(f"{b} bits {kl[b][0]:.4f} and {perplexity[b]:.1f}" for b in reversed(bits))
    show(figure, f"Mean KL in nats, and perplexity (reference {reference:.1f}): {told}.")


@course_style()
def group_sizes(errors: Mapping[str, Mapping[int, float]], guess: float | None = None) -> None:
    """Relative error of 4-bit weights against the size of the groups; guess: the first's at its largest groups."""
    figure, ax = axes(
        "Whoever shares a scale shares its outliers", x="weights in a group", y="error / weight (rms, %)", log_x=True
    )
    figure.set_figheight(3.9)
    for (name, error), (color, marker), beside in zip(errors.items(), STYLES, (-4, 1, -11), strict=False):
        sizes = sorted(error)
        ax.plot(sizes, [100 * error[size] for size in sizes], color=color, marker=marker, label=name)
        end = (sizes[-1], 100 * error[sizes[-1]])
        ax.annotate(f"{error[sizes[-1]]:.0%}", end, (9, beside), textcoords="offset points", color=color)
    if guess is not None:
        ax.plot([sizes[-1]], [100 * guess], **GUESS, label=f"your guess, whole rows: {guess:.0%}")
    ax.set_xticks(sizes, sizes)
    ax.minorticks_off()
    ax.set_xlim(sizes[0] / 1.2, sizes[-1] * 1.3)
    ax.set_ylim(0, 1.3 * max(*(100 * max(error.values()) for error in errors.values()), 100 * (guess or 0)))
    ax.legend(fontsize=9, loc="upper left")
    told = "; ".join(
        f"{name}: " + ", ".join(f"{size} {e:.1%}" for size, e in error.items()) for name, error in errors.items()
    )
    show(figure, f"Relative error of 4-bit weights by group size. {told}.")


@course_style()
def frontier(
    formats: Mapping[str, Mapping[int, tuple[float, float]]],
    *,
    floor: float | None = None,
    guess: tuple[float, float] | None = None,
    broken: float | None = None,
) -> None:
    """KL against effective bits; formats: name -> bits -> (effective bits, KL).

    The line joins formats that no smaller one beats. floor: the KL of bfloat16 weights. guess: (effective bits, KL).
    broken: the KL from which printed text breaks.
    """
    figure, ax = axes(
        "Quality against bytes", x="effective bits per weight", y="KL from the reference (nats)", log_y=True
    )
    figure.set_size_inches(8.5, 4.8)
    every = sorted(point for series in formats.values() for point in series.values())
    best = [point for i, point in enumerate(every) if all(point[1] < kl for _, kl in every[:i])]
    ax.plot(*zip(*best, strict=True), color=GREY, marker="", linewidth=5, zorder=0, label="no smaller format is better")
    places = ((0, 7), (0, 7), (9, -3), (-8, -10), (0, 7))  # of the labels: some formats lie side by side
    for (name, series), (color, marker), place in zip(
        formats.items(), (*STYLES, ("#222222", "P")), places, strict=False
    ):
        ax.plot(*zip(*series.values(), strict=True), color=color, marker=marker, linestyle="", markersize=8, label=name)
        for bits, where in series.items():
            ax.annotate(str(bits), where, place, textcoords="offset points", ha="center", fontsize=8, color=color)
    if floor:
        ax.axhline(floor, **FLOOR)
        ax.text(every[0][0], floor, "16 bits: bfloat16 weights", fontsize=9, va="bottom", color=FLOOR["color"])
    if guess:
        ax.plot(*([x] for x in guess), **GUESS, label=f"your guess: {guess[1]:g}")
    top = 3 * max(kl for _, kl in every)
    if broken:
        ax.axhspan(broken, top, color="#F6DDCC", zorder=-1, label="text breaks, as you saw above")
    ax.set_xlim(every[0][0] - 0.4, every[-1][0] + 0.4)
    ax.set_ylim(top=top)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.legend(fontsize=9, loc="upper right")
    told = "; ".join(
        f"{name}: " + ", ".join(f"{bits} ({size:.2f} effective) {kl:.4f}" for bits, (size, kl) in series.items())
        for name, series in formats.items()
    )
    show(figure, f"KL in nats by format and bits. {told}." + (f" bfloat16 weights: {floor:.1e}." if floor else ""))


@course_style()
def on_the_grid(on: Mapping[int, float], off: Mapping[int, float], guess: float | None = None) -> None:
    """KL against bits for the default model as it comes, and with its weights moved; guess: at 4 bits, as it comes."""
    figure, ax = axes(
        "The same method, the same model, and its weights moved a little",
        x="bits (groups of 32, with minimums)",
        y="KL from its own reference (nats)",
        log_y=True,
    )
    ax.title.set_fontsize(11)
    least = 1e-7  # what float32 cannot tell from 0
    for values, name, color, marker in ((off, "moved", BLUE, "o"), (on, "as it comes", ORANGE, "s")):
        bits = sorted(values)
        ax.plot(bits, [max(values[b], least) for b in bits], color=color, marker=marker, label=name)
    if guess is not None:
        ax.plot([4], [max(guess, least)], **GUESS, label=f"your guess, 4 bits as it comes: {guess:g}")
    for b in bits:
        if on[b] <= 1e-5:
            ax.annotate("0", (b, max(on[b], least)), (0, 6), textcoords="offset points", ha="center", color=ORANGE)
    ax.set_xticks(bits)
    ax.set_ylim(least / 3, 40 * max(*on.values(), *off.values()))
    ax.legend(fontsize=9, loc="upper right")
    told = ", ".join(f"{b} bits {on[b]:.4f} as it comes and {off[b]:.4f} moved" for b in sorted(on, reverse=True))
    show(figure, f"Mean KL in nats: {told}.")


@course_style()
def unpacking(measured: Mapping[str, tuple[int, float, float]], bandwidth: float, guess: float | None = None) -> None:
    """One token's product: name -> (bytes of weights, seconds from memory, seconds from the cache).

    guess: how many times quicker than "8 bits, fused" the learner expected "4 bits, fused" to be.
    """
    labels = {"x": "megabytes of weights", "y": "milliseconds"}
    figure, ax = axes("One token times 4096 x 4096 weights", **labels, log_x=True, log_y=True)
    figure.set_size_inches(8.5, 4.4)
    sizes = np.array([size for size, *_ in measured.values()]) / 1e6
    ends = np.array([sizes.min() / 1.3, sizes.max() * 1.3])
    ax.plot(ends, 1e9 * ends / bandwidth, **FLOOR, label="floor: bytes / bandwidth")
    for name, (size, memory, cached) in measured.items():
        color, marker = KERNELS[name]
        style = {"color": color, "marker": marker, "linestyle": "", "markersize": 9}
        ax.plot([size / 1e6], [1e3 * memory], **style, label=f"{name}: {1e3 * memory:.2g} ms")
        ax.plot(
            [size / 1e6], [1e3 * cached], **style, fillstyle="none", label=f"  from the cache: {1e3 * cached:.2g} ms"
        )
    if guess and {"8 bits, fused", "4 bits, fused"} <= set(measured):
        size, guessed = measured["4 bits, fused"][0], measured["8 bits, fused"][1] / guess
        ax.plot([size / 1e6], [1e3 * guessed], **GUESS, label=f"your guess, 4 bits fused: x {guess:g}")
    ax.set_xlim(*ends)
    ax.set_xticks([8.4, 16.8, 33.6], ["8.4", "16.8", "33.6"])
    ax.xaxis.set_minor_formatter(lambda value, _: "")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.yaxis.set_minor_formatter(lambda value, _: "")
    figure.legend(*ax.get_legend_handles_labels(), fontsize=9, loc="outside right center")
    told = "; ".join(
        f"{name}: {size / 1e6:.1f} MB in {1e3 * memory:.2g} ms from memory, {1e3 * cached:.2g} from the cache, floor "
        f"{1e3 * size / bandwidth:.2g}"
        for name, (size, memory, cached) in measured.items()
    )
    show(figure, f"One token's product with a matrix in several formats. {told}.")


# What follows draws the learner's own code.


@course_style()
def packed_bytes(pack_int4: Callable, unpack_int4: Callable, q: Any) -> None:
    """A row of numbers, the bytes that the learner's code makes of it in binary, and what it reads back."""
    packed, complaint = _attempt(pack_int4, q.clone())
    numbers = [int(value) for value in q[0]]
    if complaint or not hasattr(packed, "shape") or len(packed.shape) != 2 or packed.is_floating_point():
        print(complaint or f"Nothing to draw: expected uint8 [1, {(len(numbers) + 1) // 2}], got {_what(packed)}.")
        return
    back, complaint = _attempt(unpack_int4, packed.clone(), len(numbers))
    rows = [("q", numbers), ("packed", [int(value) for value in packed[0]])]
    readable = not complaint and hasattr(back, "shape") and len(back.shape) == 2
    rows.append(("unpacked", [f"{value:g}" for value in back[0].tolist()] if readable else []))
    figure = Figure(figsize=(8, 2.9))
    ax = figure.subplots()
    for height, (name, values) in zip((2, 1, 0), rows, strict=True):
        wide = 2 if name == "packed" else 1
        for place, value in enumerate(values):
            color = (BLUE, ORANGE)[place % 2] if name != "packed" else "#444444"
            ax.barh(
                height,
                0.94 * wide,
                left=wide * place + 0.03,
                height=0.72,
                color="white",
                edgecolor=color,
                linewidth=1.5,
            )
            if name != "packed":
                text = f"{value}" + (f" = {value:04b}" if name == "q" else "")
                ax.text(place + 0.5, height, text, ha="center", va="center", fontsize=10, color=color)
                continue
            bits = f"{value % 256:08b}"
            middle = 2 * place + 1
            ax.text(middle, height + 0.15, bits[:4], ha="right", va="center", family="monospace", color=ORANGE)
            ax.text(middle, height + 0.15, bits[4:], ha="left", va="center", family="monospace", color=BLUE)
            ax.text(middle, height - 0.2, f"high | low = {value}", ha="center", va="center", fontsize=8)
    if not readable:
        ax.text(0.1, 0, complaint or f"got {_what(back)}", va="center", parse_math=False)
    ax.set(xlim=(0, 2 * math.ceil(len(numbers) / 2)), ylim=(-0.5, 2.5))
    ax.set_yticks([2, 1, 0], [name for name, _ in rows])
    ax.set_xticks([place + 0.5 for place in range(len(numbers))], [f"column {place}" for place in range(len(numbers))])
    ax.set_title("Two numbers in each byte, by your code")
    ax.grid(visible=False)
    told = "; ".join(f"{name}: {', '.join(map(str, values)) or complaint}" for name, values in rows)
    show(figure, f"Even columns are blue, odd ones orange; a byte is written high half first. {told}.")


@course_style()
def group_levels(quantize_groups: Callable, dequantize_groups: Callable, bits: int = 3) -> None:
    """Sixteen weights in two groups, one with an outlier: levels and stored values by the learner's code."""
    import torch

    from .. import hardware

    values = [0.21, -0.12, 0.34, 0.05, -0.27, 0.13, 0.29, -0.02, 0.16, -0.22, 0.08, 0.31, 1.35, -0.09, 0.24, -0.18]
    weight, size = torch.tensor([values], device=hardware.device()), 8
    figure = Figure(figsize=(9, 4))
    panels, told, places = figure.subplots(1, 2, sharey=True), [], np.arange(len(values))
    for ax, symmetric in zip(panels, (False, True), strict=True):
        name = "symmetric" if symmetric else "asymmetric"
        given, complaint = _attempt(quantize_groups, weight.clone(), bits=bits, group_size=size, symmetric=symmetric)
        stored = None
        if not complaint:
            stored, complaint = _attempt(lambda parts: dequantize_groups(*parts, group_size=size), given)
        try:
            q, scale, minimum = (part.detach().double().cpu().reshape(1, -1)[0].tolist() for part in given)
            back = stored.detach().double().cpu().reshape(-1).tolist()
            steps = [scale[len(scale) * g // 2] for g in (0, 1)], [minimum[len(minimum) * g // 2] for g in (0, 1)]
            assert len(back) == len(values) == len(q)
        except (TypeError, ValueError, AttributeError, AssertionError, IndexError):
            print(complaint or f"Nothing to draw ({name}): expected (q, scale, minimum), got {_what(given)}.")
            return
        for group in (0, 1):
            left, right = group * size - 0.5, (group + 1) * size - 0.5
            levels = [steps[0][group] * level + steps[1][group] for level in range(2**bits - symmetric)]
            ax.hlines(levels, left + 0.1, right - 0.1, color=GREY, linewidth=0.9)
        ax.vlines(places, values, back, color=ORANGE, linewidth=1.5)
        ax.plot(places, values, "o", color=BLUE, markersize=5, label="weight")
        ax.plot(places, back, "_", color=ORANGE, markersize=9, markeredgewidth=2, label="what comes back")
        ax.axvline(size - 0.5, color="#444444", linewidth=1, linestyle=":")
        ax.set(title=f"{bits} bits, {name}", xlabel="column")
        ax.grid(visible=False)
        worst = [max(abs(a - b) for a, b in zip(values[g:][:size], back[g:][:size], strict=True)) for g in (0, size)]
        told.append(
            f"{name}: scales {steps[0][0]:.3f} and {steps[0][1]:.3f}, largest errors {worst[0]:.3f} and {worst[1]:.3f}"
        )
    panels[0].set_ylabel("value (grey: the levels of each group)")
    panels[0].set_ylim(-1.6, 1.9)
    panels[0].legend(fontsize=9, loc="upper left")
    show(figure, f"Two groups of {size} weights, the second with an outlier of 1.35. {'; '.join(told)}.")


@course_style()
def effective_bits(bits_per_weight: Callable) -> None:
    """Effective bits against group size by the learner's code, for scales and minimums of 16 bits."""
    sizes = [2**i for i in range(3, 11)]
    figure, ax = axes(
        "What a number really takes, by your bits_per_weight", x="weights in a group", y="bits per weight", log_x=True
    )
    told = []
    for bits, color, marker in ((3, ORANGE, "s"), (4, BLUE, "o")):
        for minimum, line, name in ((0, "-", "scale"), (16, "-.", "scale and minimum")):
            options = {"bits": bits, "scale_bits": 16, "minimum_bits": minimum}
            pairs = [_attempt(bits_per_weight, group_size=size, **options) for size in sizes]
            values = [_number(given) for given, _ in pairs]
            if None in values:
                print(next((complaint for _, complaint in pairs if complaint), f"Nothing to draw: {pairs[0][0]!r}."))
                return
            style = {"color": color, "marker": marker, "linestyle": line, "fillstyle": "none" if minimum else "full"}
            ax.plot(sizes, values, **style, label=f"{bits} bits, {name}")
            told.append(f"{bits} bits with {name}: {', '.join(f'{v:.3g}' for v in values)}")
        ax.axhline(bits, **FLOOR)
    ax.set_xticks(sizes, sizes)
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=9)
    show(figure, f"Bits per weight for groups of 8, 16, ... 1024. {'; '.join(told)}.")


@course_style()
def perplexity_windows(perplexity: Callable, *, tokens: int, window: int, stride: int, vocabulary: int = 50) -> None:
    """The windows that the learner's code feeds to a model that finds every token equally likely."""
    import torch

    from .. import hardware

    fed, ids = [], torch.arange(tokens, device=hardware.device()).view(1, -1) % vocabulary

    class Uniform(torch.nn.Module):
        def forward(self, input_ids, **options):
            fed.extend((int(row[0]), len(row)) for row in input_ids)
            return SimpleNamespace(logits=torch.zeros(*input_ids.shape, vocabulary, device=input_ids.device))

    given, complaint = _attempt(perplexity, Uniform(), ids, window=window, stride=stride)
    if not fed:
        print(complaint or f"The model was never called; you returned {given!r}.")
        return
    value = complaint or f"perplexity {given:.4g}" if complaint or _number(given) is not None else _what(given)
    figure, ax = axes(f"Your windows; {value}", x="token", y="window")
    figure.set_size_inches(8, 0.42 * min(len(fed), 12) + 1.4)
    done = 1
    for row, (start, length) in enumerate(fed[:12]):
        end = start + length
        ax.barh(row, length, left=start, height=0.75, color="white", edgecolor=BLUE, linewidth=1.2)
        new = max(done, start + 1)
        ax.barh(row, max(0, end - new), left=new, height=0.75, color=BLUE)
        if end - new >= 2:
            ax.text((new + end) / 2, row, f"{end - new} new", ha="center", va="center", fontsize=8, color="white")
        done = max(done, end)
    ax.axvline(tokens, **FLOOR)
    ax.set(xlim=(0, tokens + 1), ylim=(min(len(fed), 12) - 0.4, -0.6), yticks=range(min(len(fed), 12)))
    ax.set_yticklabels(range(1, min(len(fed), 12) + 1))
    ax.grid(visible=False, axis="y")
    told = ", ".join(f"{start} to {start + length}" for start, length in fed[:12])
    show(figure, f"{len(fed)} windows on {tokens} tokens: {told}. {value}; all {vocabulary} tokens are equally likely.")


@course_style()
def kl_of_the_unlikely(mean_kl: Callable) -> None:
    """The learner's KL when the other model thinks a token of probability 0.1 less and less likely."""
    import torch

    from .. import hardware

    powers = range(1, 101, 3)
    reference = torch.tensor([[0.6, 0.3, 0.1]], device=hardware.device()).log()
    pairs = []
    for power in powers:
        other = torch.tensor([[math.log(0.6), math.log(0.3), -power * math.log(10)]], device=hardware.device())
        pairs.append(_attempt(mean_kl, reference.clone(), other))
    values = [_number(given) for given, _ in pairs]
    if all(value is None for value in values):
        odd = next((given for given, _ in pairs if given is not None), None)
        print(pairs[0][1] or f"Nothing to draw: expected a finite number, got {_what(odd)}.")
        return
    figure, ax = axes(
        "One token becomes impossible", x="power of ten of its probability in the other model", y="your mean_kl (nats)"
    )
    figure.set_figheight(3.7)
    kept = [(power, value) for power, value in zip(powers, values, strict=True) if value is not None]
    ax.plot([-p for p, _ in kept], [v for _, v in kept], color=BLUE, marker="o", markersize=4)
    lost = len(values) - len(kept)
    if lost:
        ax.text(0.03, 0.9, f"{lost} of {len(values)} values are not finite", transform=ax.transAxes, color=ORANGE)
    ax.axvline(-45, **FLOOR)
    ax.text(-45, ax.get_ylim()[0], " the smallest number\n in float32 is 1e-45", fontsize=9, va="bottom")
    ax.set_xlim(2, -103)
    show(
        figure,
        f"KL for a token at 1e-1, 1e-4, ... 1e-100: from {kept[0][1]:.3g} to {kept[-1][1]:.3g} nats, "
        f"{lost} values not finite.",
    )


def choices(
    smallest_within: Callable,
    mean_kl: Callable,
    reference_logits: Sequence[Any],
    logits_of: Callable,
    candidates: Sequence[Any],
    *,
    limits: Sequence[float],
) -> None:
    """What the learner's `smallest_within` tries and chooses for each limit; a candidate is evaluated once in all."""
    import torch

    kept, tried, chosen = {}, [], {}

    def once(candidate):
        place = next(i for i, own in enumerate(candidates) if own is candidate)
        if place not in kept:
            kept[place] = logits_of(candidate)
        if place not in tried:
            tried.append(place)
        return kept[place]

    reference = torch.cat(list(reference_logits))
    for limit in limits:
        tried.clear()
        given, complaint = _attempt(smallest_within, reference_logits, once, list(candidates), max_kl=limit)
        if complaint:
            print(complaint)
            return
        place = next((i for i, own in enumerate(candidates) if own is given), None)
        chosen[limit] = place
        found = f"{_format(candidates[place])}" if place is not None else f"{given}"
        print(f"KL of {limit:g} or less: {found}, after {len(tried)} of {len(candidates)} candidates")
    points = {}
    for place, logits in kept.items():
        kl, complaint = _attempt(mean_kl, reference, torch.cat(logits))
        if complaint or _number(kl) is None or _number(kl) <= 0:
            print(complaint or f"Nothing to draw: mean_kl gave {kl!r}.")
            return
        points[place] = (_size(candidates[place]), float(kl))
    if points:
        _draw_choices(points, candidates, chosen, len(reference))


@course_style()
def _draw_choices(points, candidates, chosen, positions: int) -> None:
    figure, ax = axes(
        f"Tried and chosen, on {positions} positions",
        x="effective bits per weight",
        y="KL from the reference (nats)",
        log_y=True,
    )
    for place, (size, kl) in points.items():
        with_minimum = bool(candidates[place].minimum_bits)
        style = {"color": BLUE if with_minimum else ORANGE, "marker": "o" if with_minimum else "s"}
        ax.plot([size], [kl], markersize=8, **style)
        ax.annotate(
            f"{candidates[place].bits} bits", (size, kl), (0, 8), textcoords="offset points", ha="center", fontsize=9
        )
    for limit, place in chosen.items():
        ax.axhline(limit, **FLOOR)
        ax.text(0.995, limit, f"{limit:g}", transform=ax.get_yaxis_transform(), ha="right", va="bottom", fontsize=9)
        if place is not None:
            ax.plot(
                *([x] for x in points[place]), marker="o", markersize=17, fillstyle="none", color=GREEN, linestyle=""
            )
    for label, color, marker in (
        ("groups of 32, minimum", BLUE, "o"),
        ("groups of 64, symmetric", ORANGE, "s"),
        ("chosen", GREEN, "$◯$"),
    ):
        ax.plot([], [], color=color, marker=marker, linestyle="", label=label)
    ax.margins(0.12)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.legend(fontsize=9, loc="upper right")
    told = "; ".join(f"{_format(candidates[place])}: {kl:.4f}" for place, (_, kl) in sorted(points.items()))
    limits = "; ".join(
        f"{limit:g}: {_format(candidates[p]) if p is not None else 'none'}" for limit, p in chosen.items()
    )
    show(figure, f"KL in nats on {positions} positions. {told}. Chosen for each limit: {limits}.")


def _size(candidate: Any) -> float:
    return candidate.bits + (candidate.scale_bits + candidate.minimum_bits) / candidate.group_size


def _format(candidate: Any) -> str:
    minimum = ", minimum" if candidate.minimum_bits else ""
    return f"{candidate.bits} bits in groups of {candidate.group_size}{minimum} ({_size(candidate):.2f} effective)"


def _what(value: Any) -> str:
    """A value in a few words: a tensor by its dtype and shape."""
    if hasattr(value, "shape"):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else str(value)[:60]
