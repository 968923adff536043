"""The figures of chapter 03: what a cache saves, what it holds, and what is left for users.

Times given are seconds, memory is bytes; the axes say what they show. Functions that take the learner's code draw what
it gives, and say in words when it gives nothing that can be drawn.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from .phases import _attempt, _number
from .style import FLOOR, GUESS, axes, course_style, show

__all__ = [
    "attention_map",
    "cache_slots",
    "context_cost",
    "conversation",
    "recomputed",
    "request_bill",
    "reserved_and_paged",
    "room_for_users",
    "shared_heads",
    "users_in_memory",
]

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#785EF0", "#BBBBBB"
Fed = Sequence[tuple[int, int]]
"""Per forward: the position of its first token and how many tokens it carried."""


@course_style()
def recomputed(without: Fed, kept: Fed, guess: float | None = None) -> None:
    """Which tokens each forward carried, without a cache and with one; guess: how many times as many without."""
    figure = Figure(figsize=(8.5, 3.9))
    panels = figure.subplots(1, 3, width_ratios=(5, 5, 2.6))
    passes = [sum(tokens for _, tokens in fed) for fed in (without, kept)]
    end = max(start + tokens for start, tokens in without)
    for ax, fed, color, name, total in zip(panels, (without, kept), (ORANGE, BLUE), ("Without", "With"), passes):  # noqa: B905
        for row, (start, tokens) in enumerate(fed):
            ax.barh(row, tokens, left=start, height=0.82, color=color)
            ax.barh(row, start, height=0.82, color="#DDE7EE")
        if name == "With":
            ax.text(0.3, len(fed) - 1, "kept", va="center", fontsize=9, color="#445566")
        ax.set(title=f"{name} a cache: {total} tokens", xlabel="position in the sequence", xlim=(0, end))
        ax.set(ylim=(len(fed) - 0.4, -0.6), yticks=range(0, len(fed), 2))
        ax.set_yticklabels(range(1, len(fed) + 1, 2))
        ax.title.set_fontsize(10.5)
        ax.grid(visible=False)
    panels[0].set_ylabel("forward")
    ax = panels[2]
    ax.bar([0, 1], passes, color=[ORANGE, BLUE], width=0.6)
    if guess:
        ax.plot([0], [guess * passes[1]], **GUESS, label=f"your guess, x {guess:g}")
        ax.legend(fontsize=8.5, loc="upper right", handletextpad=0.1, borderpad=0)
    ax.set(title=f"x {passes[0] / passes[1]:.1f}", xticks=[0, 1], xticklabels=["without", "with"])
    ax.set(ylim=(0, 1.25 * max(passes[0], (guess or 0) * passes[1])), ylabel="tokens passed through the model")
    ax.title.set_fontsize(10.5)
    ax.grid(visible=False, axis="x")
    show(
        figure,
        f"{len(without)} forwards. Without a cache each carries the whole sequence, {passes[0]} tokens in all, a "
        f"growing triangle; with a cache the first carries the prompt and each other one token, {passes[1]} in all.",
    )


@course_style()
def shared_heads(measured: Mapping[int, float], floors: Mapping[int, float], guess: float | None = None) -> None:
    """One token's attention against key/value heads; guess: how many times quicker the middle is than the first."""
    heads = list(measured)
    ratio = measured[heads[0]] / measured[heads[1]]
    title = f"One token's attention, all layers: {heads[1]} heads are x {ratio:.1f} quicker than {heads[0]}"
    figure, ax = axes(title, x="key/value heads (log scale)", y="milliseconds")
    figure.set_figheight(3.6)
    ax.plot(heads, [1e3 * measured[h] for h in heads], color=BLUE, marker="", alpha=0.3)
    ax.plot(heads, [1e3 * measured[h] for h in heads], "o", color=BLUE, label="measured")
    ax.plot(heads, [1e3 * floors[h] for h in heads], **FLOOR, label="floor: bytes / bandwidth")
    if guess:
        guessed = 1e3 * measured[heads[0]] / guess
        ax.plot(heads[1:2] * 2, [1e3 * measured[heads[1]], guessed], color=GUESS["color"], marker="", linewidth=1)
        ax.plot(heads[1:2], [guessed], **GUESS, label=f"your guess, x {guess:g}")
    ax.set(xscale="log", ylim=(0, 1.35e3 * max(measured.values())), xticks=heads, xticklabels=heads)
    ax.minorticks_off()
    ax.legend(fontsize=9, loc="upper left")
    told = ", ".join(f"{h} heads {1e3 * measured[h]:.1f} ms (floor {1e3 * floors[h]:.1f})" for h in heads)
    show(
        figure,
        f"One token attends in every layer. Key/value heads and time: {told}. "
        f"{heads[1]} heads are {ratio:.1f} times quicker than {heads[0]}.",
    )


@course_style()
def context_cost(
    measured: Mapping[str, Mapping[int, float]], floor: Callable[[float], float], guess: float | None = None
) -> None:
    """Seconds of one decode step against tokens in the cache, per kind of cache (the second is the guessed one).

    guess: by which factor the learner expected that step to grow from the fewest tokens to the most.
    """
    figure, ax = axes("One decode step, three caches", x="tokens in the cache", y="milliseconds")
    for (name, curve), color, marker in zip(measured.items(), (ORANGE, BLUE, GREEN), "so^", strict=True):
        tokens = sorted(curve)
        ax.plot(tokens, [1e3 * curve[n] for n in tokens], color=color, marker=marker, label=name)
    ends = [tokens[0], tokens[-1]]
    ax.plot(ends, [1e3 * floor(n) for n in ends], **FLOOR, label="floor: (weights + cache) / bandwidth")
    if guess:
        reserved = list(measured.values())[1]
        ax.plot(ends[1:], [1e3 * reserved[ends[0]] * guess], **GUESS, label="your guess, reserved")
    ax.set_ylim(0, 1.35 * ax.dataLim.y1)
    ax.set_xticks(tokens)
    ax.legend(fontsize=9, ncols=2, loc="upper left")
    told = "; ".join(f"{n} {1e3 * c[ends[0]]:.0f} to {1e3 * c[ends[1]]:.0f} ms" for n, c in measured.items())
    show(figure, f"One decode step with {ends[0]} and with {ends[1]} tokens in the cache: {told}.")


@course_style()
def users_in_memory(
    memory: Callable[[int, float, float], float],
    weights: Mapping[str, float],
    caches: Mapping[str, float],
    *,
    limit: float,
    asked: int,
    guess: float | None = None,
) -> None:
    """Memory against users, memory(users, bytes per weight, bytes per cached number), for every pair of formats.

    limit: bytes of the card. asked: the number of users in question. guess: how many fit with the first pair.
    """
    figure, ax = axes("Weights lie there once, a cache for every user", x="users", y="memory (GB)")
    figure.set_size_inches(8.5, 4.9)
    most, fitting = 2 * asked, []
    for (weight, weight_bytes), color, marker in zip(weights.items(), (ORANGE, BLUE, GREEN), "so^", strict=True):
        for (cache, cache_bytes), line, filled in zip(caches.items(), ("-", "-."), ("full", "none"), strict=True):
            total = [memory(users, weight_bytes, cache_bytes) / 1e9 for users in range(most + 1)]
            style = {"color": color, "linestyle": line, "marker": marker, "fillstyle": filled, "markevery": [asked]}
            ax.plot(range(most + 1), total, **style, label=f"{weight} weights, {cache} cache")
            fit = max((users for users, size in enumerate(total) if size <= limit / 1e9), default=0)
            fitting.append(f"{weight} weights, {cache} cache: {total[asked]:.1f} GB, {fit} fit")
    ax.axhline(limit / 1e9, **FLOOR)
    ax.text(0.2, limit / 1e9 + 0.5, f"{limit / 1e9:.0f} GB", fontsize=9, color=FLOOR["color"])
    ax.axvline(asked, color=GREY, linewidth=1, zorder=0)
    if guess is not None:
        ax.plot([guess], [limit / 1e9], **GUESS, label=f"your guess, {next(iter(weights))} weights and cache")
    ax.set(xlim=(0, most), ylim=(0, None), xticks=range(0, most + 1, 4))
    figure.legend(*ax.get_legend_handles_labels(), fontsize=9, ncols=2, loc="outside lower center")
    show(
        figure, f"Memory in GB for {asked} users, limit {limit / 1e9:.0f}: {'; '.join(fitting)} (at most {most} drawn)."
    )


@course_style()
def reserved_and_paged(used: Sequence[int], longest: int, page: int, guess: float | None = None) -> None:
    """Tokens per user: held, and reserved for the longest; and the three totals. guess: the share that is held."""
    figure = Figure(figsize=(8.5, 4.2))
    left, right = figure.subplots(1, 2, width_ratios=(5, 3))
    users = range(1, len(used) + 1)
    left.barh(users, [longest] * len(used), color="white", edgecolor=GREY, hatch="///", label="reserved, empty")
    left.barh(users, used, color=BLUE, label="holds a token")
    left.set(xlabel="tokens", ylabel="user", ylim=(len(used) + 0.7, 0.3), xlim=(0, longest), yticks=list(users)[::3])
    left.grid(visible=False)
    left.set_title("A place for the longest, for each")
    left.legend(fontsize=9, loc="lower right", frameon=True, framealpha=1)
    paged = sum(-(-tokens // page) * page for tokens in used)
    totals = {"held": sum(used), f"pages\nof {page}": paged, "reserved": len(used) * longest}
    right.bar(list(totals), [n / 1e3 for n in totals.values()], color=[BLUE, GREEN, GREY], width=0.6)
    for place, tokens in enumerate(totals.values()):
        where = (place, tokens / 1e3)
        right.annotate(f"{sum(used) / tokens:.1%}", where, (0, 3), textcoords="offset points", ha="center")
    if guess:
        right.plot([2], [guess * totals["reserved"] / 1e3], **GUESS, label=f"your guess: {guess:.0%} held")
        right.legend(fontsize=9, loc="upper left")
    right.set(title="How full is it?", ylabel="thousand tokens", ylim=(0, 1.25 * totals["reserved"] / 1e3))
    right.grid(visible=False, axis="x")
    show(
        figure,
        f"{len(used)} users hold {sum(used):,} tokens. Reserving {longest} for each takes {totals['reserved']:,} "
        f"places, {sum(used) / totals['reserved']:.0%} of them filled; pages of {page} take {paged:,}, "
        f"{sum(used) / paged:.1%} filled.",
    )


@course_style()
def attention_map(cached_attention: Callable) -> None:
    """Which held tokens each new token attends to under the learner's code, for the first and last query head.

    3 new tokens of 7, 4 query heads over 2. All scores are equal, so a row should share its weight evenly; the values
    are made so that the output is the weights, plus 10 for the second key/value head.
    """
    import torch

    from .. import hardware

    heads, key_heads, new, held = 4, 2, 3, 7
    q, keys = torch.zeros(1, heads, new, held), torch.zeros(1, key_heads, held, held)
    values = torch.stack([torch.eye(held), torch.eye(held) + 10])[None]
    given, complaint = _attempt(cached_attention, *(x.to(hardware.device()) for x in (q, keys, values)))
    if complaint or tuple(getattr(given, "shape", ())) != (1, heads, new, held):
        print(complaint or f"Nothing to draw: expected [1, {heads}, {new}, {held}], got {_shape(given)}.")
        return
    out = given.detach().float().cpu().nan_to_num(-1).numpy()[0]
    read = [int(out[head, -1].mean() > 5) for head in range(heads)]  # which key/value head a query head reads
    figure = Figure(figsize=(8.5, 3.1))
    panels = figure.subplots(1, heads)
    for head, ax in enumerate(panels):
        weights = out[head] - 10 * read[head]
        ax.imshow(weights, cmap="Blues", vmin=0, vmax=0.45, aspect="auto")
        for row in range(new):
            for column in range(held):
                if abs(weights[row, column]) > 5e-3:
                    ax.text(
                        column, row, f"{weights[row, column]:.2f}".lstrip("0"), ha="center", va="center", fontsize=7
                    )
        ax.set(title=f"query head {head}\nreads head {read[head]}", xticks=range(held), yticks=range(new))
        ax.set_xlabel("held token")
        ax.set_yticklabels(range(held - new, held) if head == 0 else [])
        ax.title.set_fontsize(10)
        ax.grid(visible=False)
    panels[0].set_ylabel("new token")
    rows = "; ".join(f"token {held - new + i}: {int((out[0, i] - 10 * read[0] > 5e-3).sum())}" for i in range(new))
    show(figure, f"Held tokens that each new one attends to (query head 0): {rows}. Heads read: {read}.")


@course_style()
def cache_slots(PreallocatedCache: Callable, CacheFull: type) -> None:
    """What the learner's cache gives back after each step of a short script; each token has a number of its own."""
    import torch
    import transformers

    from .. import hardware

    config = transformers.LlamaConfig(
        num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=4, hidden_size=16
    )
    options = {"batch": 1, "dtype": torch.float32, "device": hardware.device()}
    cache, complaint = _attempt(PreallocatedCache, config, 8, **options)
    if complaint:
        print(complaint)
        return
    rows, newest = [], 0  # (step, what came back, complaint, first token that is new)
    for do, n in (("append", 4), ("append", 2), ("crop", 3), ("append", 3), ("append", 4), ("append", 2)):
        first = newest + 1
        new = torch.arange(newest + 1, newest + n + 1).float().view(1, 1, n, 1).expand(1, 1, n, 4)
        newest += n if do == "append" else 0
        given, complaint = _attempt(_one_step, cache, do, n, new.to(hardware.device()), CacheFull)
        complaint = complaint and complaint.replace(_one_step.__name__, do)
        rows.append((f"{do} {n}", given, complaint, first))
        if complaint:
            break
    figure, ax = axes("What your cache gives back (room for 8, new tokens darker)", x="place", y="")
    figure.set_size_inches(7.5, 0.5 * len(rows) + 1.4)
    for row, (_, given, complaint, first) in enumerate(rows):
        held = given if isinstance(given, list) else []
        if held:
            reserved = {"color": "white", "edgecolor": GREY, "linestyle": ":"}
            ax.barh([row] * 8, 0.9, left=np.arange(8) + 0.05, height=0.7, **reserved)
        for place, token in enumerate(held):
            color, alpha = BLUE if token else ORANGE, 0.75 if token >= first else 0.3
            ax.barh(row, 0.9, left=place + 0.05, height=0.7, color=color, alpha=alpha)
            ax.text(place + 0.5, row, f"{token:g}", ha="center", va="center")
        if not held:
            words = textwrap.fill(complaint or str(given), 70)
            ax.text(0.1, row, words, va="center", fontsize=9.5, parse_math=False)
    ax.set(xlim=(0, max(8, *(len(g) for _, g, *_ in rows if isinstance(g, list)), 0)), ylim=(len(rows) - 0.5, -0.5))
    ax.set_xticks([place + 0.5 for place in range(8)], range(1, 9))
    ax.set_yticks(range(len(rows)), [name for name, *_ in rows])
    ax.grid(visible=False)
    told = "; ".join(f"{name}: {complaint or given}" for name, given, complaint, _ in rows)
    show(figure, f"Tokens are numbered as they come; new ones are darker, reserved places dotted. {told}.")


def _one_step(cache, do: str, n: int, new, CacheFull: type) -> list[float] | str:
    """The tokens that the last layer's keys hold after one step, or what happened in words."""
    if do == "crop":
        cache.crop(n)
        return f"length {cache.length}"
    try:
        for layer in range(2):
            keys, _ = cache.append(layer, new, new)
    except CacheFull:
        return f"CacheFull; length still {cache.length}"
    cache.advance(n)
    return keys[0, 0, :, 0].tolist()


@course_style()
def conversation(
    chat_turn: Callable, model: Any, tokenizer: Any, messages: Sequence[str], *, reply_tokens: int
) -> None:
    """Run a chat by the learner's `chat_turn`, print it, and draw the seconds of its turns beside re-prefilling.

    The same conversation is also run with no cache handed over, so that each turn prefills everything.
    """
    import torch

    from .. import clock, hardware

    history, cache, rows = torch.empty(1, 0, dtype=torch.int64, device=hardware.device()), None, []
    for turn, message in enumerate(messages):
        chat = [{"role": "user", "content": message}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        text = text if turn == 0 else "<|im_end|>\n" + text[text.rindex("<|im_start|>user") :]
        new = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids.to(history)
        history = torch.cat([history, new], dim=1)
        seconds = []
        for kept in (None, cache):
            hardware.sync()
            started = clock()
            given, complaint = _attempt(chat_turn, model, kept, history.clone(), reply_tokens)
            hardware.sync()
            seconds.append(clock() - started)
        try:
            reply, cache = given
            history = torch.cat([history, reply.to(history)], dim=1)
        except (TypeError, ValueError, AttributeError, RuntimeError):
            print(complaint or f"Nothing to draw: expected (reply_ids, cache), got {_shape(given)}.")
            return
        print(f"> {message if len(message) < 70 else message[:67] + '...'}\n{tokenizer.decode(reply[0])!r}")
        rows.append((history.shape[1] - reply.shape[1], *seconds))
    figure, ax = axes("Each turn of one conversation", x="turn (tokens so far)", y="seconds")
    places = np.arange(len(rows))
    for which, name, color, hatch in ((1, "everything prefilled", ORANGE, "//"), (2, "your cache", BLUE, "")):
        style = {"color": color, "hatch": hatch, "edgecolor": "white", "label": name}
        ax.bar(places + 0.4 * which - 0.6, [row[which] for row in rows], 0.36, **style)
    ax.set_xticks(places, [f"{turn + 1} ({row[0]})" for turn, row in enumerate(rows)])
    ax.set_ylim(0, 1.25 * max(max(row[1:]) for row in rows))
    ax.legend(fontsize=9, ncols=2, loc="upper left")
    ax.grid(visible=False, axis="x")
    told = "; ".join(f"turn {i + 1}, {n} tokens: {a:.2f} and {b:.2f} s" for i, (n, a, b) in enumerate(rows))
    show(figure, f"Seconds of each turn with everything prefilled and with your cache. {told}.")


@course_style()
def room_for_users(max_users: Callable, config: Any, *, memory_bytes: float, reserve_bytes: float) -> None:
    """Users against context by the learner's `max_users`, for four formats of weights and cache."""
    contexts = [1024 * 2**i for i in range(8)]
    figure, ax = axes(
        f"Users on {memory_bytes / 1e9:.0f} GB, by your max_users", x="tokens of context each", y="users", log_x=True
    )
    told = []
    for (name, weight, kv), color, marker in zip(
        (
            ("16-bit weights and cache", 2, 2),
            ("8-bit weights, 16-bit cache", 1, 2),
            ("4.5-bit weights, 16-bit cache", 0.5625, 2),
            ("8-bit weights and cache", 1, 1),
        ),
        (ORANGE, BLUE, PURPLE, GREEN),
        "soD^",
        strict=True,
    ):
        options = {"bytes_per_weight": weight, "bytes_per_kv": kv, "reserve_bytes": reserve_bytes}
        pairs = [
            _attempt(max_users, config, memory_bytes=memory_bytes, context=context, **options) for context in contexts
        ]
        users = [_number(given) for given, _ in pairs]
        if None in users:
            print(next((complaint for _, complaint in pairs if complaint), f"Nothing to draw: {pairs[0][0]!r}."))
            return
        ax.plot(contexts, users, color=color, marker=marker, label=name)
        told.append(f"{name}: {', '.join(f'{n:g}' for n in users)}")
    ax.set_yscale("symlog", linthresh=1)
    ax.set_ylabel("users (log scale, 0 added)")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xticks(contexts, [f"{context // 1024}k" for context in contexts])
    ax.minorticks_off()
    ax.legend(fontsize=9)
    show(figure, f"Users at 1k, 2k, 4k ... 128k tokens of context. {'; '.join(told)}.")


@course_style()
def request_bill(request_seconds: Callable, config: Any, machine: Any, **options) -> None:
    """Machine-seconds of one request by the learner's `request_seconds`, against the size of the batch."""
    batches = [2**i for i in range(8)]
    pairs = [_attempt(request_seconds, config, machine, batch=batch, **options) for batch in batches]
    try:
        seconds = np.array([[float(part) for part in given] for given, _ in pairs])
        assert seconds.shape == (len(batches), 2) and np.isfinite(seconds).all()
    except (TypeError, ValueError, AssertionError):
        print(next((complaint for _, complaint in pairs if complaint), f"Nothing to draw: {pairs[0][0]!r}."))
        return
    row = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * options["bytes_per_kv"]
    attended = range(options["prompt_tokens"] + 1, options["prompt_tokens"] + options["output_tokens"])
    own = sum(attended) * row / machine.bandwidth  # which no batch shares
    figure, ax = axes(
        "What one request costs, at the floor", x="requests in the batch", y="machine-seconds", log_x=True, log_y=True
    )
    for phase, name, color, marker, above in ((0, "prefill", ORANGE, "s", -16), (1, "decode", BLUE, "o", 8)):
        ax.plot(batches, seconds[:, phase], color=color, marker=marker, label=name)
        for end in (0, -1):
            where = (batches[end], seconds[end, phase])
            ax.annotate(f"{where[1]:.3g} s", where, (0, above), textcoords="offset points", ha="center", color=color)
    ax.axhline(own, **FLOOR, label="decode: reading one's own cache")
    ax.set_xticks(batches, batches)
    ax.set(
        xlim=(0.75, 1.4 * batches[-1]),
        ylim=(seconds[seconds > 0].min(initial=own) / 2.2, seconds.max(initial=own) * 1.8),
    )
    ax.minorticks_off()
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.legend(fontsize=9)
    told = "; ".join(f"batch {b}: {p:.3g} + {d:.3g} s" for b, (p, d) in zip(batches, seconds, strict=True))
    show(
        figure,
        f"Machine-seconds of prefill and decode for one request. {told}. Reading its own cache takes {own:.3g} s.",
    )


def _shape(value: Any) -> str:
    """A value in a few words: a tensor by its shape."""
    return f"shape {list(value.shape)}" if hasattr(value, "shape") else str(value)[:60]
