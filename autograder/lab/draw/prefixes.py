"""The figures of chapter 06: which tokens are prefilled twice, what a kept prefix saves, and who waits for whom.

Times given are seconds, memory is bytes; the axes say what they show. Functions that take the learner's code draw what
it gives, and say in words when it gives nothing that can be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from ..progress import with_progress
from .phases import _attempt, _plain_numbers
from .style import FLOOR, GUESS, axes, course_style, show

__all__ = [
    "first_tokens",
    "lanes",
    "named_blocks",
    "prefilled_twice",
    "prompt_lengths",
    "prompt_order",
    "questions",
    "reader_waits",
    "replayed",
    "stored_prefixes",
]

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#785EF0", "#BBBBBB"
LETTER_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#785EF0", "#8C564B")
Piece = tuple[str, float, float]
"""(whose request, start, end) of one forward."""


@course_style()
def prefilled_twice(lengths: Sequence[int], shared: int, guess: float | None = None) -> None:
    """Tokens of each prompt: the beginning that all share, and its own. guess: the share that is prefilled again."""
    again, everything = shared * (len(lengths) - 1), sum(lengths)
    figure, ax = axes(f"{again:,} of {everything:,} tokens are prefilled again", x="tokens", y="request")
    figure.set_figheight(3.6)
    rows = np.arange(1, len(lengths) + 1)
    ax.barh(rows[:1], [shared], 0.7, color=BLUE, label="the beginning, for the first time")
    style = {"color": ORANGE, "hatch": "//", "edgecolor": "white", "label": "the same beginning, again"}
    ax.barh(rows[1:], [shared] * (len(lengths) - 1), 0.7, **style)
    ax.barh(rows, [n - shared for n in lengths], 0.7, left=shared, color=GREEN, label="its own")
    top = 0.3
    if guess is not None:  # as many tokens of a request as would repeat if the guess were right
        place = guess * everything / (len(lengths) - 1)
        ax.plot([place], [top], **GUESS, label=f"your guess: {guess:.0%} again", clip_on=False)
    ax.set(ylim=(len(lengths) + 0.6, top - 0.3), yticks=rows)
    ax.grid(visible=False, axis="y")
    figure.legend(*ax.get_legend_handles_labels(), fontsize=9, ncols=4, loc="outside lower center", columnspacing=1)
    show(
        figure,
        f"{len(lengths)} prompts of {min(lengths)} to {max(lengths)} tokens begin with the same {shared} tokens: "
        f"{again:,} of {everything:,} tokens, {again / everything:.0%}, are prefilled again.",
    )


@course_style()
def first_tokens(
    groups: Mapping[str, Sequence[float]],
    title: str,
    *,
    floors: Sequence[float] = (),
    guess: float | None = None,
) -> None:
    """Seconds to the first token of each request, one row of points per group; medians are written beside.

    floors: the least each group can take, in order. guess: the second group's time over the first's, as expected.
    """
    figure, ax = axes(title, x="time to first token, milliseconds", y="", log_x=True)
    figure.set_figheight(1.7 + 0.55 * len(groups))
    middles = [float(np.median(seconds)) for seconds in groups.values()]
    for row, (seconds, color, marker) in enumerate(zip(groups.values(), LETTER_COLOURS, "os^D", strict=False)):
        ax.plot(1e3 * np.array(seconds), [row] * len(seconds), marker, color=color, alpha=0.7)
        text = f"{1e3 * middles[row]:.0f} ms" if middles[row] < 1 else f"{middles[row]:.2f} s"
        where = (1e3 * middles[row], row)
        ax.annotate(text, where, (0, 9), textcoords="offset points", ha="center", fontsize=9)
    for row, floor in enumerate(floors):
        label = "floor: bytes, operations" if row == 0 else None
        ax.plot([1e3 * floor] * 2, [row - 0.35, row + 0.35], **FLOOR, label=label)
    if guess:
        ax.plot([1e3 * middles[0] * guess], [1], **GUESS, label="your guess")
    ax.set_yticks(range(len(groups)), list(groups))
    ax.set_ylim(len(groups) - 0.4, -0.75)
    ax.margins(x=0.1)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    _plain_numbers(ax.xaxis)
    ax.grid(visible=False, axis="y")
    if ax.get_legend_handles_labels()[0]:
        figure.legend(*ax.get_legend_handles_labels(), fontsize=9, ncols=2, loc="outside lower center")
    told = "; ".join(f"{name}: {1e3 * middle:.0f} ms" for name, middle in zip(groups, middles, strict=True))
    bound = "; floors: " + ", ".join(f"{1e3 * floor:.0f} ms" for floor in floors) if floors else ""
    show(figure, f"Median time to first token, log scale. {told}{bound}.")


@course_style()
def replayed(
    results: Mapping[int, Mapping[int, tuple[float, float, float]]],
    *,
    guess: float | None = None,
) -> None:
    """A replayed trace: block size -> budget in tokens -> (hit rate by tokens, bytes held, mean time to first token).

    guess: the expected hit rate of the first block size with the largest budget.
    """
    figure = Figure(figsize=(8.5, 4.1))
    panels = figure.subplots(1, 3)
    titles = ("Hit rate by tokens", "Memory held (GB)", "Mean time to\nfirst token (s)")
    for which, (ax, title) in enumerate(zip(panels, titles, strict=True)):
        for (block, curve), color, marker in zip(results.items(), (BLUE, ORANGE, GREEN, PURPLE), "os^D", strict=False):
            budgets = sorted(curve)
            values = [curve[budget][which] / (1e9 if which == 1 else 1) for budget in budgets]
            ax.plot(budgets, values, color=color, marker=marker, label=f"blocks of {block} tokens")
        ax.set(title=title, xscale="log", xlabel="budget, thousand tokens\n(log scale)", ylim=(0, None))
        ax.title.set_fontsize(10.5)
        ax.set_xticks(budgets[::2], [f"{budget / 1000:g}" for budget in budgets[::2]])
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.minorticks_off()
    if guess is not None:
        panels[0].plot([budgets[-1]], [guess], **GUESS, label=f"your guess: {guess:.0%}", clip_on=False)
    panels[0].set_ylim(0, 1)
    panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=9, ncols=4, loc="outside lower center")
    told = "; ".join(
        f"blocks of {block}: hit rate {curve[budgets[0]][0]:.0%} to {curve[budgets[-1]][0]:.0%}, first token "
        f"{curve[budgets[0]][2]:.2f} to {curve[budgets[-1]][2]:.2f} s, {curve[budgets[-1]][1] / 1e9:.2f} GB at the end"
        for block, curve in results.items()
    )
    show(figure, f"From a budget of {budgets[0]} tokens to one of {budgets[-1]} (log scale). {told}.")


@course_style()
def lanes(policies: Mapping[str, Sequence[Piece]], arrives: Mapping[str, float], guess: float | None = None) -> None:
    """Who is served when, by each policy: a row per request, its wait until its prefill begins dotted.

    guess: the seconds to first token that the learner expected for the last request under the first policy.
    """
    names = list(arrives)
    figure = Figure(figsize=(8.5, 1.25 * len(policies) + 1.3))
    axs = figure.subplots(len(policies), 1, sharex=True)
    told = []
    for ax, (policy, pieces) in zip(axs, policies.items(), strict=True):
        for row, (name, color, hatch) in enumerate(zip(names, (BLUE, ORANGE), ("", "//"), strict=True)):
            own = [(start, end) for who, start, end in pieces if who == name]
            for start, end in own:
                ax.barh(row, end - start, left=start, height=0.6, color=color, hatch=hatch, edgecolor="white")
            ax.plot([arrives[name]], [row], "|", color="#222222", markersize=16, markeredgewidth=2)
            first = own[-1][1]
            ax.plot([arrives[name], first], [row, row], ":", color=color, marker="", linewidth=1.2, zorder=0)
            wait = f"{first - arrives[name]:.1f} s"
            ax.annotate(wait, (first, row), (5, 0), textcoords="offset points", va="center", fontsize=9)
            told.append(f"{policy}, {name}: {wait}")
        ax.set_title(policy, fontsize=10.5)
        ax.set(yticks=range(len(names)), ylim=(len(names) - 0.4, -0.6))
        ax.set_yticklabels(names)
        ax.grid(visible=False, axis="y")
    end = max(end for pieces in policies.values() for _, _, end in pieces)
    if guess is not None:
        place = arrives[names[-1]] + guess
        axs[0].plot([place], [len(names) - 1], **GUESS, label=f"your guess: {guess:g} s", clip_on=False)
        figure.legend(*axs[0].get_legend_handles_labels(), fontsize=9, loc="outside lower center")
        end = max(end, place)
    axs[-1].set_xlabel("seconds")
    axs[-1].set_xlim(0, 1.12 * end)
    show(figure, f"Time to first token under each policy. {'; '.join(told)}.")


@course_style()
def prompt_lengths(
    cold: Mapping[int, float], kept: Mapping[int, float], step: Mapping[int, float], guess: float | None = None
) -> None:
    """Seconds against prompt tokens: first token with nothing kept and with all but a few tokens kept; a further token.

    guess: by which factor the learner expected the kept curve to grow from the shortest prompt to the longest.
    """
    lengths = sorted(cold)
    figure, ax = axes("What sets the first token's time?", x="prompt tokens", y="milliseconds", log_x=True, log_y=True)
    for name, curve, color, marker in (
        ("first token, nothing kept", cold, ORANGE, "s"),
        ("first token, all but 32 tokens kept", kept, BLUE, "o"),
        ("each further token", step, GREEN, "^"),
    ):
        ax.plot(lengths, [1e3 * curve[n] for n in lengths], color=color, marker=marker, label=name)
        where = (lengths[-1], 1e3 * curve[lengths[-1]])
        text = f"x {curve[lengths[-1]] / curve[lengths[0]]:.1f}"
        ax.annotate(text, where, (7, 0), textcoords="offset points", va="center", fontsize=9, color=color)
    if guess:
        ax.plot(lengths[-1:], [1e3 * kept[lengths[0]] * guess], **GUESS, label=f"your guess for kept, x {guess:g}")
    ax.set_xticks(lengths, lengths)
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.margins(x=0.1)
    _plain_numbers(ax.yaxis)
    ax.legend(fontsize=9)
    told = "; ".join(
        f"{name} {1e3 * curve[lengths[0]]:.0f} to {1e3 * curve[lengths[-1]]:.0f} ms"
        for name, curve in (("nothing kept", cold), ("all but 32 kept", kept), ("a further token", step))
    )
    show(figure, f"Log scales. From {lengths[0]} to {lengths[-1]} prompt tokens: {told}.")


@course_style()
def reader_waits(cases: Mapping[str, tuple[float, float]], guess: float | None = None) -> None:
    """Per case (time to first token, time of all tokens after it): what a reader waits for with and without a stream.

    guess: the seconds a reader of the first case was expected to save by streaming.
    """
    figure, ax = axes("Until the reader sees something", x="seconds", y="")
    figure.set_figheight(1.7 + 0.6 * len(cases))
    for row, (first, rest) in enumerate(cases.values()):
        ax.barh(row, first, 0.55, color=ORANGE, label="to the first token" if row == 0 else None)
        style = {"color": BLUE, "alpha": 0.45, "hatch": "..", "edgecolor": "white"}
        ax.barh(row, rest, 0.55, left=first, label="all further tokens" if row == 0 else None, **style)
        for moment, text, marker in ((first, "streamed", "v"), (first + rest, "at once", "D")):
            ax.plot([moment], [row - 0.36], marker, color="#222222", markersize=6)
            ax.annotate(f"{text}: {moment:.2f} s", (moment, row - 0.36), (6, 1), textcoords="offset points", fontsize=9)
    if guess is not None:
        first, rest = next(iter(cases.values()))
        ax.plot([first + rest - guess], [0.36], **GUESS, label=f"your guess: {guess:g} s saved")
    ax.set_yticks(range(len(cases)), list(cases))
    ax.set_ylim(len(cases) - 0.4, -0.8)
    ax.set_xlim(0, 1.2 * max(first + rest for first, rest in cases.values()))
    ax.grid(visible=False, axis="y")
    figure.legend(*ax.get_legend_handles_labels(), fontsize=9, ncols=3, loc="outside lower center")
    told = "; ".join(f"{n}: {first:.2f} s streamed, {first + rest:.2f} s at once" for n, (first, rest) in cases.items())
    show(figure, f"When a reader first sees something. {told}.")


@course_style()
def named_blocks(block_hashes: Callable, block_tokens: int) -> None:
    """The blocks of four prompts, coloured by the hash the learner's code gives them."""
    first, second, third = (list(range(start, start + block_tokens)) for start in (10, 20, 30))
    prompts = {
        "a prompt": [*first, *second, *third, 7],
        "the same beginning": [*first, *second, 8, 9],
        "another first block": [1, 2, 3, 4, *second, *third],
        "one block three times": first * 3,
    }
    names: dict[Any, str] = {}
    figure, ax = axes("Blocks by the hash your code gives them", x="token", y="")
    figure.set_figheight(3.2)
    told = []
    for row, (prompt, tokens) in enumerate(prompts.items()):
        given, complaint = _attempt(block_hashes, list(tokens), block_tokens)
        if complaint or not isinstance(given, list | tuple):
            print(complaint or f"Nothing to draw: expected a list of bytes, got {str(given)[:60]}.")
            return
        ax.barh(
            [row] * len(tokens), 0.94, left=np.arange(len(tokens)) + 0.03, height=0.7, color="white", edgecolor=GREY
        )
        letters = ""
        for i, name in enumerate(given):
            letter = names.setdefault(name if isinstance(name, bytes | str | int) else repr(name), chr(65 + len(names)))
            letters += letter
            start, end = i * block_tokens, min((i + 1) * block_tokens, len(tokens))
            color = LETTER_COLOURS[(ord(letter) - 65) % len(LETTER_COLOURS)]
            ax.barh(row, end - start - 0.1, left=start + 0.05, height=0.7, color=color, alpha=0.75)
            ax.text((start + end) / 2, row, letter, ha="center", va="center", color="white", fontweight="bold")
        told.append(f"{prompt}: {letters or 'none'}")
    ax.set_yticks(range(len(prompts)), list(prompts))
    ax.set(
        ylim=(len(prompts) - 0.5, -0.5),
        xlim=(0, 3 * block_tokens + 1.5),
        xticks=range(0, 3 * block_tokens + 1, block_tokens),
    )
    ax.grid(visible=False)
    show(figure, f"Blocks of {block_tokens} tokens, a letter for each hash. {'; '.join(told)}.")


SCRIPT = ("+ABC", "+EF", "?A", "+G", "+AD", "+HIJKL")  # ends of old paths go first, and what is longer than the room


@course_style()
def stored_prefixes(PrefixCache: Callable) -> None:
    """What can be found in the learner's cache after each call of a short script, with room for four blocks."""
    import torch
    import transformers

    block, rows = 4, []
    tokens = {letter: [10 * i + j for j in range(block)] for i, letter in enumerate("ABCDEFGHIJKL")}
    paths = sorted({word[1:][:n] for word in SCRIPT for n in range(1, len(word))}, key=lambda path: (len(path), path))

    def of(path: str) -> list[int]:
        return [token for letter in path for token in tokens[letter]]

    def filled(path: str):
        cache = transformers.DynamicCache()
        cache.update(*torch.zeros(2, 1, 1, len(path) * block, 2), 0)
        return cache

    def replay(words: Sequence[str]):
        store = PrefixCache(block, 4)
        for word in words:
            store.match(of(word[1:])) if word[0] == "?" else store.insert(of(word[1:]), filled(word[1:]))
        return store

    for i, word in enumerate(SCRIPT):
        found = []
        for path in paths:  # a look changes what was used last, so each has a store of its own
            store, complaint = _attempt(replay, SCRIPT[: i + 1])
            held, complaint = (
                (None, complaint)
                if complaint
                else _attempt(lambda s=store, p=path: int(s.match(of(p)).get_seq_length()))
            )
            if complaint:
                print(complaint.replace("<lambda>", "match").replace("replay", "PrefixCache"))
                return
            if held >= len(path) * block:
                found.append(path)
        rows.append((word, found))
    figure, ax = axes("What can be found in your cache (room for four blocks)", x="", y="")
    figure.set_size_inches(7.5, 0.45 * len(rows) + 1.0)
    for row, (word, found) in enumerate(rows):
        used = {word[1:][:n] for n in range(1, len(word))}
        for place, path in enumerate(found):
            color = LETTER_COLOURS[(ord(path[-1]) - 65) % len(LETTER_COLOURS)]
            ax.barh(row, 0.92, left=place + 0.04, height=0.74, color=color, alpha=0.85 if path in used else 0.3)
            behind = f" behind {path[:-1]}" if len(path) > 1 else ""
            ax.text(place + 0.5, row, f"{path[-1]}{behind}", ha="center", va="center", fontsize=9)
    words = [f"{'insert' if word[0] == '+' else 'match'} {word[1:]}" for word, _ in rows]
    ax.set_yticks(range(len(rows)), words)
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, max(4, *(len(found) for _, found in rows))), xticks=[])
    ax.grid(visible=False)
    told = "; ".join(f"{word}: {', '.join(found) or 'nothing'}" for word, (_, found) in zip(words, rows, strict=True))
    show(figure, f"Prefixes found after each call, blocks just used darker. {told}.")


@course_style()
def questions(
    generate_with_prefix: Callable, PrefixCache: Callable, model: Any, tokenizer: Any, *, block_tokens: int
) -> None:
    """Six questions about one text by the learner's code: time to first token with one cache for all, and without."""
    from .. import clock, hardware

    log = " ".join(f"On day {day} we sailed {day * 7 % 40 + 20} miles." for day in range(1, 41))
    kept, complaint = _attempt(PrefixCache, block_tokens, 1000)
    rows = []
    for day in with_progress((2, 9, 16, 23, 30, 37)):
        chat = [
            {"role": "system", "content": f"You answer questions about this ship's log. {log}"},
            {"role": "user", "content": f"How many miles did we sail on day {day}?"},
        ]
        encoded = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
        ids, seconds = encoded["input_ids"].to(hardware.device()), []
        for store in (kept, None):
            if complaint is None:
                store, complaint = (store, None) if store is not None else _attempt(PrefixCache, block_tokens, 1000)
            hardware.sync()
            started = clock()
            _, complaint = (None, complaint) if complaint else _attempt(generate_with_prefix, model, store, ids, 1)
            hardware.sync()
            seconds.append(clock() - started)
        if complaint:
            print(complaint)
            return
        rows.append((ids.shape[1], *seconds))
    figure, ax = axes("Time to first token of six questions", x="question", y="milliseconds")
    places = np.arange(len(rows))
    for which, name, color, hatch in ((2, "everything prefilled", ORANGE, "//"), (1, "your prefix cache", BLUE, "")):
        style = {"color": color, "hatch": hatch, "edgecolor": "white", "label": name}
        ax.bar(places + 0.4 * which - 0.6, [1e3 * row[which] for row in rows], 0.36, **style)
    ax.set_xticks(places, [f"{i + 1}" for i in places])
    ax.set_ylim(0, 1.25e3 * max(max(row[1:]) for row in rows))
    ax.legend(fontsize=9, ncols=2, loc="upper left")
    ax.grid(visible=False, axis="x")
    counted = [getattr(kept, name, None) for name in ("hit_tokens", "seen_tokens")]
    print(f"your cache found {counted[0]} of {counted[1]} tokens")
    told = "; ".join(f"question {i + 1}: {1e3 * a:.0f} and {1e3 * b:.0f} ms" for i, (_, a, b) in enumerate(rows))
    show(figure, f"Time to first token with your prefix cache and without one, {rows[0][0]} tokens each. {told}.")


@course_style()
def prompt_order(order_prompt: Callable, parts: Sequence[tuple[str, int, float]]) -> None:
    """A prompt's parts in the order of the learner's code: what is reused of each on average, and what is not."""
    given, complaint = _attempt(order_prompt, list(parts))
    of = {part[0]: part for part in parts}
    try:
        order = [of[item if isinstance(item, str) else item[0]] for item in given]
    except (TypeError, KeyError, IndexError):
        print(complaint or f"Nothing to draw: expected a list of the parts, got {str(given)[:60]}.")
        return
    figure, ax = axes("", x="tokens, in the prompt's order", y="")
    figure.set_figheight(2.6)
    start, unchanged, reused = 0, 1.0, 0.0
    told = []
    for (name, tokens, p), above in zip(order, (True, False) * 3, strict=False):
        unchanged *= p
        reused += tokens * unchanged
        ax.barh(0, tokens, 0.6, left=start, color="white", edgecolor=GREY, hatch="///")
        ax.barh(0, tokens, 0.6 * unchanged, left=start, color=BLUE)
        where, text = (start + tokens / 2, 0.3 if above else -0.3), f"{name}\n{tokens}, p {p:g}"
        offset = {"xytext": (0, 6 if above else -6), "va": "bottom" if above else "top"}
        ax.annotate(text, where, textcoords="offset points", ha="center", fontsize=9, **offset)
        start += tokens
        told.append(f"{name} {unchanged:.0%}")
    total = sum(part[1] for part in order)
    ax.set_title(f"{reused:.0f} of {total} tokens are reused on average")
    ax.set(ylim=(-0.85, 0.85), yticks=[], xlim=(-0.02 * total, 1.02 * total))
    ax.grid(visible=False)
    show(figure, f"Parts in order with the share reused: {', '.join(told)}. In all {reused:.0f} of {total} tokens.")
