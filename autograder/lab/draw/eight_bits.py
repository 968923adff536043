"""The figures of chapter 04: products with the same weights in several forms, and a model before and after int8.

Seconds, bytes and operations come in; the axes say what they show. Functions that take the learner's code draw what it
gives, and say in words when it gives nothing that can be drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from .phases import _attempt, _number
from .style import FLOOR, GUESS, axes, course_style, show
from .timing import _plain_log_ticks

__all__ = [
    "bound",
    "bytes_moved",
    "layer_bytes",
    "model_before_and_after",
    "one_token",
    "rounding",
    "tokens_per_second",
    "ways",
]

BLUE, ORANGE, GREEN, GREY, PALE = "#0072B2", "#D55E00", "#009E73", "#999999", "#56B4E9"
SERIES = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), ("#222222", "D"))
COLORS = {"read": BLUE, "written": ORANGE, "read again": PALE}
NEAR = {"textcoords": "offset points", "fontsize": 9, "va": "center"}


@course_style()
def bytes_moved(ways: Mapping[str, Mapping[str, float]], *, guess: tuple[str, float] | None = None) -> None:
    """Bytes that go through memory per weight: way -> what moves them -> bytes, as stacked bars.

    guess: a way, and the bytes guessed for it.
    """
    figure, ax = axes("What one product moves through memory", x="bytes per weight", y="")
    figure.set_figheight(1.6 + 0.42 * len(ways))
    hatches = {"read": "", "written": "//", "read again": ".."}
    for row, moved in enumerate(ways.values()):
        left = 0.0
        for what, size in moved.items():
            ax.barh(row, size, left=left, height=0.6, color=COLORS[what], hatch=hatches[what], edgecolor="white")
            left += size
        ax.annotate(f"{left:g}", (left, row), (6, 0), **NEAR)
    handles = [Patch(facecolor=c, hatch=hatches[what], edgecolor="white", label=what) for what, c in COLORS.items()]
    if guess:
        handles += ax.plot([guess[1]], [list(ways).index(guess[0])], **GUESS, label="your guess")
    ax.set_yticks(range(len(ways)), list(ways))
    most = max(*(sum(moved.values()) for moved in ways.values()), guess[1] if guess else 0)
    ax.set(ylim=(len(ways) - 0.4, -0.6), xlim=(0, 1.15 * most))
    ax.grid(visible=False, axis="y")
    figure.legend(handles=handles, fontsize=9, ncols=4, loc="outside lower center")
    told = "; ".join(
        f"{name}: " + ", ".join(f"{size:g} {what}" for what, size in moved.items()) for name, moved in ways.items()
    )
    show(figure, f"Bytes per weight. {told}.")


@course_style()
def ways(
    seconds: Mapping[str, float],
    floors: Mapping[str, float],
    *,
    guess: tuple[str, float] | None = None,
    title: str = "One product, several ways",
) -> None:
    """One point per way of multiplying, the floor of each as a dashed mark, a thin line between them; log scale.

    seconds, floors: way -> seconds. guess: a way, and the seconds guessed for it.
    """
    figure, ax = axes(title, x="milliseconds", y="", log_x=True)
    figure.set_figheight(1.5 + 0.42 * len(seconds))
    everything = [*seconds.values(), *floors.values(), *([guess[1]] if guess else [])]
    low, high = 1e3 * min(everything) / 2, 1e3 * max(everything) * 2.2
    for row, (name, value) in enumerate(seconds.items()):
        color, marker = (ORANGE, "s") if "float" in name else (BLUE, "o")
        ax.plot([1e3 * floors.get(name, value), 1e3 * value], [row, row], color=color, marker="", linewidth=1.5)
        ax.plot([1e3 * value], [row], color=color, marker=marker, markersize=8)
        right = max(value, guess[1] if guess and guess[0] == name else 0, floors.get(name, 0))
        ax.annotate(f"{1e3 * value:.3g} ms", (1e3 * right, row), (10, 0), **NEAR)
        if name in floors:
            label = "its bytes / bandwidth" if name == next(iter(floors)) else None
            ax.plot([1e3 * floors[name]] * 2, [row - 0.4, row + 0.4], **FLOOR | {"linewidth": 2}, label=label)
    if guess:
        ax.plot([1e3 * guess[1]], [list(seconds).index(guess[0])], **GUESS, label="your guess")
    ax.set_yticks(range(len(seconds)), list(seconds))
    ax.set(ylim=(len(seconds) - 0.4, -0.6), xlim=(low, high))
    _plain_log_ticks(ax)
    ax.grid(visible=False, axis="y")
    if floors or guess:
        figure.legend(fontsize=9, ncols=2, loc="outside lower center")
    told = ", ".join(f"{name} {1e3 * value:.3g} ms" for name, value in seconds.items())
    limits = ", ".join(f"{name} {1e3 * value:.3g} ms" for name, value in floors.items())
    show(figure, f"Log scale. {told}." + (f" Bytes over bandwidth: {limits}." if limits else ""))


@course_style()
def tokens_per_second(
    measured: Mapping[str, float], predicted: float, *, guess: float | None = None, names: Sequence[str] = ()
) -> None:
    """Tokens per second, a bar per version of the model; the prediction for the last one as a line across it.

    names: versions whose bars are only for comparison, drawn pale.
    """
    figure, ax = axes("One request, tokens per second", x="tokens per second", y="")
    figure.set_figheight(1.5 + 0.45 * len(measured))
    for row, (name, speed) in enumerate(measured.items()):
        ax.barh(row, speed, height=0.55, color=PALE if name in names else BLUE)
        right = max(speed, predicted, guess or 0) if row == len(measured) - 1 else speed
        ax.annotate(f"{speed:.3g}", (right, row), (10, 0), **NEAR)
    last = len(measured) - 1
    ax.plot([predicted] * 2, [last - 0.4, last + 0.4], **FLOOR | {"linewidth": 2}, label=f"predicted: {predicted:.0f}")
    if guess is not None:
        ax.plot([guess], [last], **GUESS, label=f"your guess: {guess:.0f}")
    ax.set_yticks(range(len(measured)), list(measured))
    ax.set(ylim=(last + 0.6, -0.6), xlim=(0, 1.2 * max(*measured.values(), predicted, guess or 0)))
    ax.grid(visible=False, axis="y")
    figure.legend(fontsize=9, ncols=2, loc="outside lower center")
    told = ", ".join(f"{name}: {speed:.0f}" for name, speed in measured.items())
    show(figure, f"Tokens per second. {told}. Predicted for the last: {predicted:.0f}.")


@course_style()
def rounding(quantize_int8: Callable) -> None:
    """Three rows rounded by the learner's code: how far each weight moved, in steps of its row."""
    import torch

    rng = torch.Generator().manual_seed(4)
    weight = torch.randn(3, 24, generator=rng) * torch.tensor([[1.0], [0.1], [0.01]])
    given, complaint = _attempt(quantize_int8, weight.clone())
    try:
        q, scale = given
        needed = weight.abs().amax(dim=1, keepdim=True) / 127
        off = ((q.float() * scale.float().reshape(-1, 1) - weight) / needed).tolist()
        assert len(off) == 3 and len(off[0]) == 24 and np.isfinite(off).all()
    except Exception:
        print(complaint or f"Nothing to draw: expected (q, scale), got {str(given)[:80]}.")
        return
    figure, ax = axes("How far rounding moved each weight", x="weight", y="moved by, in steps of its row")
    ax.axhspan(-0.5, 0.5, color=GREY, alpha=0.2, label="half a step")
    for row, (color, marker) in zip(off, SERIES, strict=False):
        size = ("large", "a tenth", "a hundredth")[off.index(row)]
        ax.plot(range(24), row, marker, color=color, label=f"row of {size} size")
    reach = max(0.8, 1.1 * float(np.abs(off).max()))
    ax.set_ylim(-reach, reach)
    if reach > 3:
        ax.set_yscale("symlog", linthresh=1)
        ax.set_ylabel("steps of its row (log scale beyond 1)")
    figure.legend(fontsize=9, ncols=2, loc="outside lower center")
    told = ", ".join(f"{np.abs(row).max():.2g}" for row in off)
    show(figure, f"24 weights of three rows. The furthest that a weight of each moved, in steps of its row: {told}.")


def one_token(int8_matvec: Callable, *, size: int = 4096, rounds: int = 3) -> None:
    """Time the learner's product and the library's float one with rotating weights, and draw both with their floors."""
    import torch

    from .. import clock, hardware, machine_card, rotation

    card, where = machine_card(), hardware.device()
    numbers = rotation.rotation_bytes()
    count = max(2, numbers // size**2)
    q = rotation.pool(count * size**2, 0).view(count, size, size)
    weight = q.to(card.dtype)
    x, scale = torch.randn(size, device=where).to(card.dtype), torch.rand(size, device=where) / 4096
    works = {
        f"{card.dtype} weight".replace("torch.", "float: a "): lambda i: torch.nn.functional.linear(x, weight[i]),
        "yours: an int8 weight": lambda i: int8_matvec(x, q[i], scale),
    }
    seconds: dict[str, float] = {}
    for name, work in works.items():
        _, complaint = _attempt(work, 0)
        if complaint:
            print(f"Nothing to draw: {complaint}.".replace("..", "."))
            return
        taken = []
        for i in range(max(count, 32 * rounds)):
            hardware.sync()
            started = clock()
            work(i % count)
            hardware.sync()
            taken.append(clock() - started)
        seconds[name] = median(taken[1:])
    read = [size**2 * card.dtype.itemsize, size**2]
    floors = {name: size_bytes / card.bandwidth for name, size_bytes in zip(seconds, read, strict=True)}
    ways(seconds, floors, title=f"One token through a {size} x {size} matrix")


@course_style()
def layer_bytes(Int8Linear: type) -> None:
    """Bytes that a float32 layer and the learner's hold, and by how much their outputs differ."""
    import torch

    from .. import alive

    torch.manual_seed(0)
    before = alive.storages()
    linear = torch.nn.Linear(576, 1536).requires_grad_(False)
    x = torch.randn(64, 576)
    expected, float_bytes = linear(x), linear.weight.nbytes + linear.bias.nbytes
    layer, complaint = _attempt(Int8Linear.from_linear, linear)
    del linear
    if not complaint:
        y, complaint = _attempt(lambda: layer(x), *())
    if complaint or not torch.is_tensor(y) or y.shape != expected.shape:
        print(complaint or f"Nothing to draw: [64, 576] should give [64, 1536], not {getattr(y, 'shape', y)}.")
        return
    off = ((y.float() - expected).norm() / expected.norm()).item()
    mine = {x.untyped_storage().data_ptr(), y.untyped_storage().data_ptr(), expected.untyped_storage().data_ptr()}
    held = sum(size for place, size in alive.storages().items() if place not in before and place not in mine)
    figure, ax = axes(f"Bytes held; outputs differ by {off:.2%}", x="kilobytes", y="")
    figure.set_figheight(2.2)
    bars = {"nn.Linear, float32": float_bytes, "your Int8Linear": held}
    ax.barh(range(2), [size / 1e3 for size in bars.values()], height=0.55, color=(ORANGE, BLUE))
    for row, size in enumerate(bars.values()):
        ax.annotate(f"{size / 1e3:,.0f} kB", (size / 1e3, row), (6, 0), **NEAR)
    ax.set_yticks(range(2), list(bars))
    ax.set(ylim=(1.6, -0.6), xlim=(0, 1.25 * max(*bars.values()) / 1e3))
    ax.grid(visible=False, axis="y")
    told = f"A float32 layer holds {float_bytes:,} bytes, yours {held:,}."
    show(figure, f"{told} Outputs differ by {off:.2%} of their size.")


def model_before_and_after(quantize_model: Callable, *, tokens: int = 256) -> None:
    """Quantize a copy of the default model by the learner's code; draw its bytes and the probability of each token."""
    import torch

    from .. import evaluation, hardware, models

    original = models.load_model(dtype=torch.float32)
    model = copy.deepcopy(original)
    given, complaint = _attempt(quantize_model, model)
    if complaint:
        print(f"Nothing to draw: {complaint}.")
        return
    model = given if isinstance(given, torch.nn.Module) else model
    ids = evaluation.evaluation_ids(models.load_tokenizer())[:, :tokens].to(hardware.device())
    with torch.inference_mode():
        pair = [_attempt(models.forward, one, ids, keep=0) for one in (original, model)]
    if complaint := pair[1][1]:
        print(f"Nothing to draw: {complaint}.")
        return
    logs = [logits[0].float().log_softmax(dim=-1) for logits, _ in pair]  # [T, V]
    _before_and_after([_bytes_by_kind(original), _bytes_by_kind(model)], logs, ids[0])


@course_style()
def _before_and_after(held: list[dict[str, int]], logs: list, ids) -> None:
    before, after = logs
    same = (before.argmax(-1) == after.argmax(-1)).float().mean().item()
    kl = (before.exp() * (before - after)).sum(-1).mean().item()
    chosen = [log[:-1].gather(1, ids[1:, None])[:, 0].exp().cpu().numpy() for log in logs]
    figure = Figure(figsize=(8.6, 4.2))
    left, right = figure.subplots(1, 2, width_ratios=(3, 4))
    kinds = list(held[0])
    for which, (name, color, hatch) in enumerate((("before", ORANGE, "//"), ("after", BLUE, ""))):
        places = np.arange(len(kinds)) + 0.38 * which - 0.19
        sizes = [held[which][kind] / 1e6 for kind in kinds]
        left.bar(places, sizes, 0.36, color=color, hatch=hatch, edgecolor="white", label=name)
        for place, size in zip(places, sizes, strict=True):
            left.annotate(f"{size:.0f}", (place, size), (0, 2), textcoords="offset points", ha="center", fontsize=8.5)
    left.set_xticks(range(len(kinds)), kinds, fontsize=9)
    left.set(title="Where the bytes are", ylabel="megabytes")
    left.grid(visible=False, axis="x")
    left.legend(fontsize=9)
    right.plot([0, 1], [0, 1], **FLOOR)
    right.plot(*chosen, "o", color=BLUE, markersize=4, alpha=0.5)
    right.set(title="Each token's probability", xlabel="before", ylabel="after", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    print(f"same likeliest token at {same:.1%} of {len(ids)} positions, mean KL {kl:.4f} nats")
    sizes = "; ".join(f"{kind} {held[0][kind] / 1e6:.0f} to {held[1][kind] / 1e6:.0f}" for kind in kinds)
    show(
        figure,
        f"Megabytes before and after: {sizes}. Next to it the probability of each next token of the text before and "
        f"after; the same token is likeliest at {same:.1%} of the positions, mean KL {kl:.4f} nats.",
    )


def _bytes_by_kind(model: Any) -> dict[str, int]:
    """Bytes of the embedding table, of the head beyond what it shares with the table, and of all else."""
    import torch

    table = model.get_input_embeddings().weight
    head, seen = model.get_output_embeddings(), {table.untyped_storage().data_ptr()}
    sizes = {"embedding": table.nbytes, "head": 0, "layers": 0}
    for kind, part in (("head", head), ("layers", model)):
        tensors = [value for module in part.modules() for value in _tensors(module)]
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if isinstance(tensor, torch.Tensor) and storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                sizes[kind] += storage.nbytes()
    return sizes


def _tensors(module: Any):
    """Tensors that a module holds itself: parameters, buffers, plain attributes."""
    import torch

    plain = [value for value in vars(module).values() if isinstance(value, torch.Tensor)]
    yield from (*module.parameters(recurse=False), *module.buffers(recurse=False), *plain)


@course_style()
def bound(speedup_bound: Callable, *, machine: Any, bytes_before: float = 538e6) -> None:
    """What the learner's `speedup_bound` says as a model shrinks, for several overheads."""
    shares = np.linspace(1, 8, 29)
    figure, ax = axes("What your speedup_bound says", x="bytes before / bytes after", y="predicted speedup")
    ax.plot([1, 8], [1, 8], **FLOOR, label="the ratio of the bytes")
    told = []
    for overhead, (color, marker) in zip((0.0, 0.002, 0.006, 0.02), SERIES, strict=True):
        options = {"overhead_s": overhead, "bandwidth": machine.bandwidth}
        pairs = [_attempt(speedup_bound, bytes_before, bytes_before / share, **options) for share in shares]
        speedups = [_number(given) for given, _ in pairs]
        if None in speedups:
            print(next((complaint for _, complaint in pairs if complaint), f"Nothing to draw: {pairs[0][0]!r}."))
            return
        label = f"{1e3 * overhead:g} ms of overhead"
        ax.plot(shares, speedups, color=color, marker=marker, markevery=4, label=label)
        told.append(f"{label}: {speedups[-1]:.2f} at a ratio of 8")
    ax.legend(fontsize=9)
    show(figure, f"Predicted speedup against the ratio of the bytes. {'; '.join(told)}.")
