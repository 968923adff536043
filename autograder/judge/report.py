"""A verdict as a person reads it: plain text, notebook HTML, and a small picture of a measured comparison."""

from __future__ import annotations

import base64
import html
import io
import textwrap

from autograder.judge.verdict import Verdict

WIDTH = 92
INDENT = 8
DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))  # and separators of lines
HOSTILE = {i: None for i in (*range(32), *range(127, 160), *DIRECTIONS) if chr(i) not in "\n\t"}


def points_text(points: float) -> str:
    """3, 2.5: points without a needless decimal."""
    return f"{points:g}"


def clean(text: str) -> str:
    """Text without control characters: it cannot drive a terminal, nor turn or break the lines around it."""
    return text.translate(HOSTILE)


def _lines(verdict: Verdict) -> list[tuple[str, str]]:
    """(mark, text) rows: the note first, then a row per rung."""
    rows = [("", verdict.note)] if verdict.note else []
    refused = verdict.note and verdict.outcome in ("untouched", "died", "timeout")
    for rung in () if refused else verdict.rungs:
        if verdict.speed and rung.message and rung is verdict.rungs[-1]:
            rows.append(_measured(verdict, rung))
        else:
            rows.append(("ok", rung.name) if rung.ok else ("no", _failed(rung)))
    if verdict.review:
        rows.append(("!", f"for a person to look at: {verdict.review}"))
    return [(mark, clean(text)) for mark, text in rows]


def _measured(verdict: Verdict, rung) -> tuple[str, str]:
    """The speed rung's row: measured numbers are told whether they were enough or not."""
    if not verdict.speed.get("measurable"):
        return "?", rung.message
    return ("ok", f"{rung.name}: {rung.message}") if rung.ok else ("no", rung.message)


def _failed(rung) -> str:
    if not rung.message:
        return rung.name
    if rung.message == "as above":
        return f"{rung.name} (as above)"
    return rung.message


def _headline(verdict: Verdict) -> tuple[str, str]:
    return clean(verdict.name), f"{points_text(verdict.points)} of {points_text(verdict.max_points)}"


def report_text(verdict: Verdict) -> str:
    """The report in plain text, at most 92 columns wide."""
    name, marks = _headline(verdict)
    lines = [f"{name}{marks:>{max(1, WIDTH - len(name))}}"]
    for mark, text in _lines(verdict):
        first, *rest = text.split("\n")
        body = textwrap.wrap(first, WIDTH - INDENT) or [""]
        body += [part for line in rest for part in textwrap.wrap(line, WIDTH - INDENT - 2, initial_indent="  ")]
        lines.append(f"  {mark:<{INDENT - 2}}{body[0]}")
        lines += [" " * INDENT + line for line in body[1:]]
    return "\n".join(lines)


STYLE = {
    "box": "font-family:var(--jp-content-font-family,sans-serif);max-width:46em;line-height:1.45",
    "head": "display:flex;justify-content:space-between;font-weight:600;border-bottom:1px solid #8888",
    "row": "display:flex;gap:.8em;margin:.3em 0",
    "frame": "display:block;font-family:var(--jp-code-font-family,monospace);font-size:.9em;opacity:.85",
}
# mark -> sign, word for screen readers, colour readable on light and on dark
SIGNS = {
    "ok": ("✓", "passed", "#1a7f37"),
    "no": ("✗", "not passed", "#cf222e"),
    "!": ("!", "attention", "#9a6700"),
    "?": ("?", "not measured", "#9a6700"),
    "": ("", "", "inherit"),
}


def report_html(verdict: Verdict, *, picture: bool = True, footer: str = "") -> str:
    """The report as an HTML fragment without scripts; every text in it is escaped.

    footer: HTML of the caller's own making, shown below.
    """
    name, marks = _headline(verdict)
    parts = [
        f'<div style="{STYLE["box"]}">',
        f'<div style="{STYLE["head"]}"><span>{html.escape(name)}</span><span>{marks}</span></div>',
    ]
    for mark, text in _lines(verdict):
        sign, word, colour = SIGNS[mark]
        first, *rest = text.split("\n")
        frames = "".join(f'<span style="{STYLE["frame"]}">{html.escape(line)}</span>' for line in rest)
        label = f' role="img" aria-label="{word}"' if word else ""
        parts.append(
            f'<div style="{STYLE["row"]}"><span style="color:{colour};font-weight:700;min-width:1em"{label}>{sign}'
            f"</span><span>{html.escape(first)}{frames}</span></div>"
        )
    if picture and (png := report_png(verdict)):
        data = base64.b64encode(png).decode()
        parts.append(f'<img alt="{html.escape(describe_picture(verdict))}" src="data:image/png;base64,{data}">')
    parts.append(footer)
    parts.append("</div>")
    return "".join(parts)


def describe_picture(verdict: Verdict) -> str:
    """The picture in words, for those who cannot see it."""
    speed = verdict.speed or {}
    text = f"Your code ran at {speed['ratio']:.2f} times the speed of {_against(speed)}"
    if speed.get("reference_ratio"):
        text += f"; the course's solution at {speed['reference_ratio']:.2f} times"
    return f"{text}. Each dot is one of {speed['triples']} comparisons."


def _against(speed: dict) -> str:
    """What the speedups of a verdict are over."""
    return speed.get("against", "the slow way")


def report_png(verdict: Verdict) -> bytes | None:
    """A small PNG of the comparisons, each a dot at its speedup over the slow way; None when nothing was timed.

    Where only slowness costs marks the course's solution stands in the slow way's place.
    """
    speed = verdict.speed
    if not speed or not speed.get("seconds", {}).get("baseline"):
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    seconds = speed["seconds"]
    rows = [("your code", "learner", "#0969da", "o")]
    if speed.get("reference_ratio"):
        rows.insert(0, ("the course's solution", "reference", "#57606a", "s"))
    figure = Figure(figsize=(6.2, 0.55 + 0.45 * len(rows)), dpi=110)
    axes = figure.add_axes((0.26, 0.42, 0.71, 0.54))
    everything = [1.0]
    for height, (label, side, colour, marker) in enumerate(rows):
        ratios = [a / b for a, b in zip(seconds["baseline"], seconds[side], strict=True)]
        everything += ratios
        axes.plot(ratios, [height] * len(ratios), marker, color=colour, alpha=0.45, markersize=6, label=label)
        middle = speed["ratio"] if side == "learner" else speed["reference_ratio"]
        axes.plot([middle] * 2, [height - 0.3, height + 0.3], color=colour, linewidth=2)
    half, full = speed.get("half_bar"), speed.get("full_bar")
    for bar, style in ((half if half != full else None, ":"), (full, "--")):
        if bar:
            axes.axvline(bar, color="#1a7f37", linestyle=style, linewidth=1.2)
            everything.append(bar)
    axes.axvline(1.0, color="#cf222e", linewidth=1.2)
    low, high = min(everything) / 1.15, max(everything) * 1.15
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=9)
    near = (0.75, 1.25) if high / low < 4 else ()
    ticks = [t for t in (0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, *near) if low <= t <= high]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}×"))
    axes.tick_params(labelsize=8)
    marks = "full marks dashed" if half == full else "half marks dotted, full marks dashed"
    axes.set_xlabel(f"speed over {_against(speed)} (log); green: {marks}", fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    buffer = io.BytesIO()
    FigureCanvasAgg(figure).print_png(buffer)
    return buffer.getvalue()
