"""check, hint, rubric and progress in a notebook: a thin client. The judging happens in another process (`desk`)."""

from __future__ import annotations

import atexit
import html
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue

SHOW_PROGRESS_AFTER = 1.0  # seconds
_ended = object()


class NotHere(RuntimeError):
    """The function was called where there is no notebook to look at."""


def _shell():
    """The running IPython shell, or None."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


@dataclass(frozen=True)
class Executed:
    """One execution of a cell: its source, nbformat's id where the kernel was told, and its [number]."""

    source: str
    id: str
    count: int


class Recorder:
    """Remembers what was executed in this kernel, cell by cell, from the moment the course was imported.

    What ran before that comes from IPython's own history, without ids.
    """

    def __init__(self, shell) -> None:
        self._shell = shell
        history = list(shell.history_manager.input_hist_raw)
        self._executed = [Executed(source, f"history-{n}", n) for n, source in enumerate(history) if source]
        shell.events.register("pre_run_cell", self._record)

    def _record(self, info) -> None:
        count = self._shell.execution_count
        cell_id = getattr(info, "cell_id", None) or f"anonymous-{count}"
        self._executed.append(Executed(info.raw_cell, cell_id, count))

    def cells(self) -> list[dict]:
        """The latest execution of each cell, in execution order."""
        latest: dict[str, Executed] = {}
        for execution in self._executed:
            latest.pop(execution.id, None)
            latest[execution.id] = execution
        return [vars(execution) for execution in latest.values()]


_recorder: Recorder | None = Recorder(_shell()) if _shell() is not None else None


def _notebook_file() -> Path | None:
    """The notebook this kernel belongs to, where its front end tells."""
    shell = _shell()
    named = os.environ.get("JPY_SESSION_NAME") or (shell.user_ns.get("__vsc_ipynb_file__") if shell else None)
    for path in (Path(named), Path.cwd() / Path(named).name) if isinstance(named, str) else ():
        if path.suffix == ".ipynb" and path.is_file():
            return path
    return None


def _standing_order() -> list[str]:
    """Cell ids in the order in which they stand in the saved notebook; empty when it cannot be read."""
    path = _notebook_file()
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"] if path else []
        return [cell["id"] for cell in cells if isinstance(cell.get("id"), str)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


class Desk:
    """The judge's process, started at the first check and kept for the next ones."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None
        self._events: Queue = Queue()
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 (kept as long as the kernel)
        atexit.register(self.close)

    def ask(self, request: dict):
        """Yield events until the one that answers the request; None while nothing happens for a moment."""
        process = self._running()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except OSError:
            self.close()
            yield {"refused": "the judge could not be started; `autograder doctor` in a terminal says what is missing"}
            return
        while True:
            try:
                event = self._events.get(timeout=0.2)
            except Empty:
                yield None
                continue
            if event is _ended:
                event = {"refused": f"the judge stopped unexpectedly. {self._last_words()}".strip()}
                self.close()
            yield event
            if "doing" not in event:
                return

    def _running(self) -> subprocess.Popen:
        if self._process is None or self._process.poll() is not None:
            self._events = Queue()
            self._complaints.truncate(0)
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-m", "autograder.course.desk"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                text=True,
                start_new_session=True,  # an interrupt meant for the kernel is not the judge's
            )
            threading.Thread(target=self._listen, args=(self._process, self._events), daemon=True).start()
        return self._process

    @staticmethod
    def _listen(process: subprocess.Popen, events: Queue) -> None:
        for line in process.stdout:
            events.put(json.loads(line))
        events.put(_ended)

    def _last_words(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().strip().splitlines()
        return f"Its last words: {lines[-1]}" if lines else ""

    def close(self) -> None:
        """End the judge and everything it started."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process = None


_desk = Desk()


class _ProgressBar:
    """A bar in the cell's output that appears only when something takes a while, and goes away at the end."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._started = time.monotonic()
        self._display = None
        self._text, self._fraction = "starting the judge", 0.0

    def tell(self, event: dict | None) -> None:
        if event is not None:
            self._text, self._fraction = event["doing"], event["fraction"]
        if time.monotonic() - self._started < SHOW_PROGRESS_AFTER:
            return
        if self._display is None:
            from IPython.display import display

            self._display = display(self._bundle(), raw=True, display_id=True)
        else:
            self._display.update(self._bundle(), raw=True)

    def _bundle(self) -> dict:
        waited = f"{self._title}: {self._text} ({time.monotonic() - self._started:.0f} s)"
        bar = f'<progress max="1" value="{self._fraction:.3f}" style="width:16em"></progress> '
        return {"text/plain": waited, "text/html": bar + html.escape(waited)}

    def finish(self, bundle: dict) -> None:
        """Put the final report where the bar was."""
        from IPython.display import display

        if self._display is None:
            display(bundle, raw=True)
        else:
            self._display.update(bundle, raw=True)


def _needs_notebook(what: str) -> None:
    if _recorder is None:
        raise NotHere(f"{what} works in a notebook; in a terminal use `autograder {what.split('(')[0]}`")


def check(name: str) -> float:
    """Judge your answer to the exercise and show the report. Returns its points."""
    _needs_notebook("check(...)")
    bar = _ProgressBar(name)
    request = {"name": name, "cells": _recorder.cells(), "standing": _standing_order(), "folder": os.getcwd()}
    try:
        for event in _desk.ask(request):
            if event is not None and "doing" not in event:
                break
            bar.tell(event)
    except KeyboardInterrupt:
        _desk.close()
        bar.finish({"text/plain": f"{name}: the check was stopped; nothing was marked"})
        return 0.0
    if "refused" in event:
        bar.finish({"text/plain": event["refused"]})
        return 0.0
    bar.finish({"text/plain": event["text"], "text/html": event["html"]})
    return float(event["points"])


_hints_given: dict[str, int] = {}


def hint(name: str) -> None:
    """Show a question that leads on; calling it again shows a narrower one."""
    from autograder import chapters
    from autograder.course.desk import unknown

    exercise = chapters.find(name)
    hints = getattr(exercise, "hints", ())
    if not hints:
        _say(unknown(name) if exercise is None else f"{name} has no hints; rubric({name!r}) shows how it is marked")
        return
    given = min(_hints_given.get(name, 0), len(hints) - 1)
    _hints_given[name] = given + 1
    more = "" if given + 1 == len(hints) else f"\n(hint({name!r}) once more narrows it down)"
    _say(f"{hints[given]}{more}")


def rubric(name: str) -> None:
    """Show how a written answer is marked, once yours is written, and mark yourself: for your progress only."""
    from autograder import chapters
    from autograder.course import progress as kept
    from autograder.course.desk import unknown
    from autograder.exercise import MarkScheme

    scheme = chapters.find(name)
    if not isinstance(scheme, MarkScheme):
        _say(unknown(name) if scheme is None else f"{name} is marked by check({name!r}), not by a rubric")
        return
    written = _answer("Is your own answer written? Reading the scheme first takes the exercise away. [y/n] ")
    if written is None:
        _say("rubric(...) asks questions, and here is no place to type: run this cell by itself, in JupyterLab.")
        return
    if not written.startswith("y"):
        _say("Write yours first, then come back.")
        return
    earned = 0
    for number, point in enumerate(scheme.points, start=1):
        _say(f"{number}. {point.point}\n   earns it:  {point.earns}\n   does not:  {point.does_not}")
        earned += _yes("Does your answer earn this point? [y/n] ")
    kept.record(name, earned, len(scheme.points))
    samples = "\n\n".join(f"{sum(s.awarded)} of {len(s.awarded)}: {s.text}\n   why: {s.why}" for s in scheme.samples)
    _say(f"You gave yourself {earned} of {len(scheme.points)}. Two answers already marked, to compare:\n\n{samples}")


def _yes(question: str) -> bool:
    return (_answer(question) or "").startswith("y")


def _answer(question: str) -> str | None:
    """The answer to a yes/no question in small letters; None where nobody can be asked."""
    try:
        return input(question).strip().lower()
    except Exception:  # StdinNotImplementedError of a kernel without a person, EOFError of a pipe
        return None


def progress() -> None:
    """Draw how far you are, chapter by chapter."""
    from autograder.course import progress as kept

    rows = kept.by_chapter()
    lines, cells = [], []
    for row in rows:
        share = row.points / row.max_points if row.max_points else 0.0
        bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
        written = f"written {row.written:g} of {row.max_written:g}"
        lines.append(f"{row.slug:<26}{bar} {row.points:>4g} of {row.max_points:g}   {written}")
        cells.append(
            f'<tr><td style="text-align:left">{html.escape(row.slug)}</td><td><progress max="1" value="{share:.3f}">'
            f"</progress></td><td>{row.points:g} of {row.max_points:g}</td><td>{written}</td></tr>"
        )
    end = kept.what_next()
    table = f"<table>{''.join(cells)}</table><div>{html.escape(end)}</div>"
    _show({"text/plain": "\n".join([*lines, end]), "text/html": table})


def _say(text: str) -> None:
    _show({"text/plain": text})


def _show(bundle: dict) -> None:
    if _shell() is None:
        print(bundle["text/plain"])
        return
    from IPython.display import display

    display(bundle, raw=True)
