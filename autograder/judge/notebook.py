"""Reading the code of a notebook, from a file or from a running kernel."""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

from autograder.lab import LabError

MAX_NOTEBOOK_BYTES = 64 << 20
MAX_CELLS = 2000
MAX_CODE = 500_000  # characters of all code cells: a syntax tree takes a thousand times as many bytes


class NotebookError(LabError):
    """A file that cannot be read as a notebook; one sentence for the person who named it."""


@dataclass(frozen=True)
class Cell:
    """One code cell. `number` counts cells from 1 as the reader sees them; `id` is nbformat's, where there is one."""

    source: str
    id: str | None = None
    number: int = 0
    label: str = ""

    @property
    def file(self) -> str:
        """What tracebacks call this cell."""
        return self.label or f"cell {self.number}"


def read_notebook(path: Path) -> dict:
    """The notebook's JSON, with text for every cell source. Raises NotebookError."""
    path = Path(path)
    if not path.exists():
        raise NotebookError(f"there is no file {path}")
    if path.is_dir():
        raise NotebookError(f"{path} is a folder; name the notebook in it")
    try:
        if path.stat().st_size > MAX_NOTEBOOK_BYTES:
            raise NotebookError(f"{path} is larger than {MAX_NOTEBOOK_BYTES >> 20} MB; clear its outputs first")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise NotebookError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotebookError(f"{path} is not a notebook: it is not text") from None
    if not text.strip():
        raise NotebookError(f"{path} is empty; save the notebook again")
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        raise NotebookError(f"{path} is not a notebook, or was only half written: it is not JSON") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise NotebookError(f"{path} is not a notebook: it has no list of cells")
    if len(notebook["cells"]) > MAX_CELLS:
        raise NotebookError(f"{path} has more than {MAX_CELLS} cells")
    if sum(len(cell.source) for cell in cells_of(notebook)) > MAX_CODE:
        raise NotebookError(f"{path} has more than {MAX_CODE} characters of code")
    return notebook


def cells_of(notebook: dict) -> list[Cell]:
    """The code cells, in the order in which they stand."""
    cells = []
    for number, cell in enumerate(notebook["cells"], start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        if isinstance(source, str):
            cell_id = cell.get("id")
            cells.append(Cell(source, cell_id if isinstance(cell_id, str) else None, number))
    return cells


def read_cells(path: Path) -> list[Cell]:
    """The code cells of a notebook file. Raises NotebookError."""
    return cells_of(read_notebook(path))


TIMED = re.compile(r"\A\s*%%(time|capture|prun|mprun)\b[^\n]*\n?")
ANY_CELL_MAGIC = re.compile(r"\A\s*%%")
# In what follows no two neighbours can match the same characters: time is linear in the text.
TIMED_LINE = re.compile(r"^([ \t]*)%(?:time|prun)[ \t]+(?!it\b)", re.MULTILINE)
MAGIC = re.compile(r"^[ \t]*(?:\w[\w, ]*=[ \t]*)?[!%?]", re.MULTILINE)
MOST_MAGICS, MOST_CHARACTERS = 20, 200_000  # beyond these IPython's own translation takes minutes
MAGIC_VALUE = re.compile(r"^([ \t]*)(\w[\w, ]*)=[ \t]*[!%].*$", re.MULTILINE)
TRANSLATED = re.compile(r"\bget_ipython\(\)\.(?:run_line_magic|system|getoutput)\(.*\)$", re.MULTILINE)
MAGIC_LINE = re.compile(r"^([ \t]*)(?:[!%?].*|[\w.]+\?{1,2}[ \t]*)$", re.MULTILINE)


def parsed(source: str) -> ast.Module:
    """The syntax tree. Raises SyntaxError with a message for whatever Python cannot take, and warns nobody."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (ValueError, RecursionError, MemoryError) as error:
            raise SyntaxError(str(error) or "nested too deeply") from None


def plain_python(source: str) -> str:
    """A cell as plain Python: `%%time` and its like give way to the code they time, other magics to nothing that binds.

    So does all of a `%%timeit` cell: a notebook keeps no name of it either.
    """
    source = source.replace("\r\n", "\n").replace("\0", "")
    for _ in range(MOST_MAGICS):
        if not (timed := TIMED.match(source)):
            break
        source = "\n" * timed.group().count("\n") + source[timed.end() :]
    if ANY_CELL_MAGIC.match(source):
        return ""
    try:
        parsed(source)
    except SyntaxError:
        return _without_magics(TIMED_LINE.sub(r"\1", source))
    return source


def _without_magics(source: str) -> str:
    """IPython's own translation of a cell; of a monstrous one only what regular expressions see."""
    if len(source) > MOST_CHARACTERS or len(MAGIC.findall(source)) > MOST_MAGICS:
        return MAGIC_LINE.sub(r"\1pass", MAGIC_VALUE.sub(r"\1\2= None", source))
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        translated = TransformerManager().transform_cell(source)
        return TRANSLATED.sub("None", translated) if translated.count("get_ipython") <= 3 * MOST_MAGICS else source
    except Exception:  # whatever it cannot take is for the parser to refuse
        return source
