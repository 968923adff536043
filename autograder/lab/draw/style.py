"""The look of every figure, and a description for those who cannot see it."""

from __future__ import annotations

import base64
import html
import io
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import style
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLE = Path(__file__).parent.parent / "course.mplstyle"
FLOOR = {"color": "#555555", "linestyle": "--", "linewidth": 1.3, "marker": ""}
"""How a limit is drawn: a dashed grey line without markers."""
GUESS = {"color": "#CC79A7", "marker": "*", "markersize": 13, "linestyle": ""}
"""How the learner's own guess is drawn: a star."""


def axes(title: str, *, x: str, y: str, log_x: bool = False, log_y: bool = False) -> tuple[Figure, Axes]:
    """A figure with one pair of axes in the course's style. x and y are labels with units; log axes say so."""
    with course_style():
        figure = Figure()
        ax = figure.subplots()
        ax.set_title(title)
        ax.set_xlabel(f"{x} (log scale)" if log_x else x)
        ax.set_ylabel(f"{y} (log scale)" if log_y else y)
        if log_x:
            ax.set_xscale("log")
        if log_y:
            ax.set_yscale("log")
    return figure, ax


@contextmanager
def course_style():
    """Everything drawn inside has the course's look (also as a decorator); the user's settings stay outside."""
    with style.context(STYLE):
        yield


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    buffer = io.BytesIO()
    with course_style():
        figure.savefig(buffer, format="png")
    return buffer.getvalue()


def show(figure: Figure, description: str) -> None:
    """Show the figure in the notebook with `description` as its alternative text; outside IPython do nothing.

    JupyterLab gives the words to screen readers only from HTML, other readers take the picture. The figure is
    closed, so that no notebook shows it twice.
    """
    if "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None:
        from IPython.display import display

        picture = base64.b64encode(png(figure)).decode()
        image = f'<img alt="{html.escape(description)}" src="data:image/png;base64,{picture}">'
        display(
            {"image/png": picture, "text/html": image, "text/plain": description},
            metadata={"image/png": {"alt": description}},
            raw=True,
        )
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close(figure)
