"""The course's own evaluation text: nine short pieces in as many registers, written for it and published nowhere else.

About 4,000 tokens: enough to compare two versions of a model token by token, and read in seconds.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .hardware import device

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

_FILE = Path(__file__).with_suffix(".txt")
_BETWEEN = "\n=====\n"


@cache
def evaluation_texts() -> tuple[str, ...]:
    """A story, an explanation, a dialogue, a recipe, a letter, minutes, history, a manual and a weather report."""
    return tuple(piece.strip() for piece in _FILE.read_text("utf-8").split(_BETWEEN))


def evaluation_text() -> str:
    """All pieces one after the other, an empty line between them."""
    return "\n\n".join(evaluation_texts())


def evaluation_ids(tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    """The whole text as token ids: int64 [1, about 4,000] on the course's device."""
    return tokenizer(evaluation_text(), return_tensors="pt", verbose=False).input_ids.to(device())
