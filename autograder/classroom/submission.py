"""A submission: any file as a well-formed notebook, and that notebook as nbgrader recorded it at release.

Nothing a student can write into a notebook's JSON gets past `clean` and `restored` except the text of cells,
pictures, and plain text that cells had put out.
"""

from __future__ import annotations

import html
import itertools
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode, v4
from nbgrader.api import Gradebook

from autograder.judge import NotebookError, read_notebook

MAX_TEXT = 20_000  # characters of one output, or of one text cell
MAX_ALL_TEXT = 300_000  # characters shown of all text cells: rendering odd text takes seconds per cell
MAX_PICTURE = 3_000_000  # characters of one picture, in base64
MAX_ALTERNATIVE = 1000  # characters of the words for one picture
MAX_OUTPUTS = 20  # of one cell
CELL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
PICTURES = {"image/png": "iVBORw0KGgo", "image/jpeg": "/9j/"}  # kind -> how its base64 begins
FLAGS = ("deletable", "editable")
JOINER = "\u2060"  # a character of no width
LINK = re.compile(r"\]\s*[(:]\s*(?=(\S*))")
SAFE_SCHEMES = ("http", "https", "mailto", "attachment")


@dataclass(frozen=True)
class Recorded:
    """One nbgrader cell as the gradebook knows it."""

    name: str
    cell_type: str
    source: str
    nbgrader: dict[str, Any]

    @property
    def locked(self) -> bool:
        return self.nbgrader["locked"]

    @property
    def grade(self) -> bool:
        return self.nbgrader["grade"]

    @property
    def written(self) -> bool:
        """Whether a person marks it."""
        return self.grade and self.nbgrader["solution"]


def recorded_cells(gradebook: Gradebook, notebook: str, assignment: str) -> dict[str, Recorded]:
    """The nbgrader cells of one notebook by grade id, in the order in which they stand in the release."""
    known = gradebook.find_notebook(notebook, assignment)
    points = {cell.name: cell.max_score for cell in (*known.grade_cells, *known.task_cells)}
    graded = {cell.name for cell in known.grade_cells}
    solutions = {cell.name for cell in known.solution_cells}
    tasks = {cell.name for cell in known.task_cells}
    cells = {}
    for cell in known.source_cells:
        nbgrader = {
            "grade": cell.name in graded,
            "grade_id": cell.name,
            "locked": cell.locked,
            "schema_version": 3,
            "solution": cell.name in solutions,
            "task": cell.name in tasks,
            "checksum": cell.checksum,
            "cell_type": cell.cell_type,
        }
        if cell.name in points:
            nbgrader["points"] = points[cell.name]
        cells[cell.name] = Recorded(cell.name, cell.cell_type, cell.source, nbgrader)
    return cells


def read(path: Path) -> NotebookNode:
    """The notebook in a submitted file. Raises NotebookError (one sentence) for anything that is none."""
    path = Path(path)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise NotebookError(f"{path.name} is a link or a folder, not a file")
    try:
        return clean(read_notebook(path))
    except NotebookError as error:
        raise NotebookError(str(error).replace(str(path), path.name)) from None
    except RecursionError:
        raise NotebookError(f"{path.name} is not a notebook: it is nested too deeply") from None


def clean(notebook: dict) -> NotebookNode:
    """A valid notebook of the present format with the same cells: source, pictures, plain text, and our metadata."""
    taken: set[str] = set()
    free = _fresh_ids()
    cells = [_clean_cell(cell, taken, free) for cell in notebook["cells"] if isinstance(cell, dict)]
    left = MAX_ALL_TEXT
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = _cut(cell.source, left)
            left -= min(len(cell.source), left, MAX_TEXT)  # more of a cell is never shown
    return v4.new_notebook(cells=cells, metadata=_plain(notebook.get("metadata"), "autograder", "kernelspec"))


def restored(notebook: NotebookNode, recorded: dict[str, Recorded]) -> NotebookNode:
    """The notebook with nbgrader's cells as they were released, whatever became of them.

    The last cell with an id has it, other copies and unknown ids are plain cells; locked cells get their text
    back; missing ones with points are appended. Missing answer cells are not: their stub would come last and
    win over an answer that stands somewhere else. All other metadata goes.
    """
    last = {_grade_id(cell): position for position, cell in enumerate(notebook.cells)}
    cells = []
    for position, cell in enumerate(notebook.cells):
        known = recorded.get(_grade_id(cell))
        if known is not None and last[known.name] == position:
            cells.append(_as_recorded(known, cell))
        else:
            cell.metadata = NotebookNode()
            if cell.cell_type == "markdown":
                cell.source = readable(cell.source, cell.get("attachments", {}))
            cells.append(cell)
    for known in recorded.values():
        if known.grade and known.name not in last:
            cells.append(_as_recorded(known))
            cells[-1].id = free_id(f"restored-{known.name}", {cell.id for cell in cells[:-1]})
    notebook.cells = cells
    return notebook


def readable(markdown: str, attachments: Mapping[str, Any]) -> str:
    """A student's text as it can be shown to anybody: of bounded length, harmless, and left in plain text where
    nbgrader's pages could not be made of it (one of those and nobody's answer could be marked in the formgrader).
    """
    text = harmless(_cut(markdown, MAX_TEXT), attachments)
    try:
        MarkdownWithMath(renderer=IPythonRenderer(escape=False, attachments=attachments)).render(text)
    except Exception:  # whatever it is that the renderer cannot take
        return textwrap.indent(text, "    ")
    return text


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + " ... (cut)"


def harmless(markdown: str, attachments: Collection[str] = ()) -> str:
    """Markdown that looks the same and can do nothing where it is shown.

    An invisible character after every "<" keeps it from opening a tag, in text as in code. Links to anything
    but a page, a mail address or one of the attachments become relative ones.
    """

    def link(match: re.Match) -> str:
        target = re.sub(r"[\x00-\x20\\]", "", html.unescape(match[1])).lower()
        scheme, colon, _ = target.partition(":")
        foreign = colon and "/" not in scheme and scheme not in SAFE_SCHEMES
        missing = scheme == "attachment" and not _is_attached(match[1].partition(":")[2], attachments)
        return match[0] + "./" if foreign or missing else match[0]

    return LINK.sub(link, markdown.replace("<", "<" + JOINER))


def _is_attached(target: str, attachments: Collection[str]) -> bool:
    """Whether a link's text begins with the whole name of an attachment."""
    return any(re.match(re.escape(name) + r"(?![^)>\s])", target) for name in attachments)


def _as_recorded(known: Recorded, cell: NotebookNode | None = None) -> NotebookNode:
    """A cell (of the submission, or a new one) made into what the gradebook recorded."""
    source = known.source if cell is None or known.locked else cell.source
    if known.cell_type == "code":
        outputs = cell.get("outputs", []) if cell is not None and not known.grade else []
        new = v4.new_code_cell(source, outputs=outputs)
    else:
        attachments = cell.get("attachments", {}) if cell is not None and not known.locked else {}
        new = v4.new_markdown_cell(source if source == known.source else readable(source, attachments))
        if attachments:
            new.attachments = attachments
    if cell is not None:
        new.id = cell.id
    new.metadata.update(nbgrader=known.nbgrader, deletable=False)
    if known.locked:
        new.metadata.editable = False
    return new


def _grade_id(cell: NotebookNode) -> str | None:
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    return grade_id if isinstance(grade_id, str) else None


def _clean_cell(cell: dict, taken: set[str], free: Iterator[str]) -> NotebookNode:
    source = _text(cell.get("source"))
    kept = {"metadata": _plain(cell.get("metadata"), "autograder", "nbgrader", *FLAGS)}
    kept["id"] = free_id(cell.get("id"), taken, free)
    taken.add(kept["id"])
    if cell.get("cell_type") == "code":
        count = cell.get("execution_count")
        kept["execution_count"] = count if type(count) is int else None
        return v4.new_code_cell(source, outputs=_clean_outputs(cell.get("outputs")), **kept)
    if attachments := _clean_attachments(cell.get("attachments")):
        kept["attachments"] = attachments
    return v4.new_markdown_cell(source, **kept)


def _clean_outputs(outputs: Any) -> list[NotebookNode]:
    """What a cell had put out, as plain text and pictures only."""
    kept = []
    for output in outputs[:MAX_OUTPUTS] if isinstance(outputs, list) else []:
        if not isinstance(output, dict):
            continue
        data = output.get("data") if isinstance(output.get("data"), dict) else {}
        text = _text(data.get("text/plain")) or _text(output.get("text")) or _text(output.get("traceback"), "\n")
        picture = _picture(data.get("image/png"), "image/png")
        if picture:
            data = {"image/png": picture, "text/plain": text[:MAX_TEXT]}
            kept.append(v4.new_output("display_data", data, metadata=alternative(text)))
        elif text:
            kept.append(v4.new_output("stream", name="stdout", text=text[:MAX_TEXT]))
    return kept


def alternative(text: str) -> dict:
    """Metadata by which a page made of the notebook gives these words to whoever cannot see a picture."""
    return {"image/png": {"alt": text[:MAX_ALTERNATIVE] or "a figure without a description"}}


def _clean_attachments(attachments: Any) -> dict[str, dict[str, str]]:
    """The pictures pasted into a markdown cell, under their names and under those that links write in their place."""
    kept = {}
    for name, data in attachments.items() if isinstance(attachments, dict) else ():
        for kind in PICTURES if isinstance(data, dict) else ():
            if picture := _picture(data.get(kind), kind):
                kept |= {key: {kind: picture} for key in (_text(name), quote(_text(name)))}
    return kept


def _picture(data: Any, kind: str) -> str | None:
    """The base64 of a picture that really is one of this kind."""
    text = _text(data)
    good = len(text) <= MAX_PICTURE and text.startswith(PICTURES[kind]) and BASE64.fullmatch("".join(text.split()))
    return text if good else None


def _plain(metadata: Any, *names: str) -> dict[str, Any]:
    """These entries of a dict: the flags that are booleans, and of the others' dicts what is a plain value."""
    kept = {}
    for name in names if isinstance(metadata, dict) else ():
        value = metadata.get(name)
        if name in FLAGS and isinstance(value, bool):
            kept[name] = value
        elif name not in FLAGS and isinstance(value, dict):
            kept[name] = {k: v for k, v in value.items() if isinstance(v, str | int | float | bool)}
    return kept


def _fresh_ids() -> Iterator[str]:
    return (f"cell-{n}" for n in itertools.count())


def free_id(wanted: Any, taken: set[str], free: Iterator[str] | None = None) -> str:
    """A valid cell id that no other cell has: the wanted one where it can be had, else the next of `free`."""
    if isinstance(wanted, str) and CELL_ID.fullmatch(wanted) and wanted not in taken:
        return wanted
    return next(name for name in free or _fresh_ids() if name not in taken)


def _text(value: Any, between: str = "") -> str:
    """Text, or a list of its parts, as one string that can be saved as UTF-8."""
    if isinstance(value, list):
        value = between.join(part for part in value if isinstance(part, str))
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
