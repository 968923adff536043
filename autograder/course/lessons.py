"""Running a lesson from its first cell to its last, as a learner would."""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

BUDGET_SECONDS = 90.0  # of one lesson on 2 cores without a GPU
PATIENCE = 3  # a lesson fails at this many times its budget: machines differ


class LessonError(Exception):
    """A lesson that did not run to its end; one sentence."""


def run(path: Path, *, seconds: float, progress: Callable[[str, float], None] | None = None) -> float:
    """Run a notebook in a kernel and folder of its own, changing no file. Returns the seconds its cells took.

    seconds: how long they may take together. Raises LessonError.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = nbformat.read(path, as_version=4)
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": folder}})
        try:
            with client.setup_kernel(stderr=subprocess.DEVNULL):  # what kernels grumble is no finding
                begun = time.monotonic()
                for number, cell in enumerate(notebook.cells, start=1):
                    if progress:
                        progress(f"{path.stem}, cell {number}", number / len(notebook.cells))
                    client.timeout = max(1, math.ceil(begun + seconds - time.monotonic()))
                    client.execute_cell(cell, number - 1)
                return time.monotonic() - begun
        except CellExecutionError as error:
            raise LessonError(f"cell {number} raised {error.ename}: {error.evalue}") from None
        except CellTimeoutError:
            raise LessonError(f"it did not end within {seconds:.0f} s and was stopped in cell {number}") from None
        except DeadKernelError:
            raise LessonError(f"its kernel died in cell {number}") from None
