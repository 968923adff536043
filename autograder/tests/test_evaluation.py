"""The course's own text: there in every install, long enough, varied, and the same tokens for everybody."""

from __future__ import annotations

import pytest
import torch

from autograder import lab


def test_nine_pieces_and_their_sum():
    pieces = lab.evaluation_texts()
    assert len(pieces) == 9 and all(len(piece.split()) > 250 for piece in pieces)
    assert lab.evaluation_text().split("\n\n")[0] in pieces[0]
    assert "=====" not in lab.evaluation_text()


def test_it_is_about_four_thousand_tokens_of_the_default_model():
    ids = lab.evaluation_ids(lab.load_tokenizer("smollm2-135m"))
    assert ids.dtype == torch.int64 and ids.shape == (1, ids.numel())
    assert 3800 <= ids.numel() <= 4800


def test_it_holds_no_code_and_nothing_but_plain_characters():
    text = lab.evaluation_text()
    assert {character for character in text if not character.isascii()} <= {"é"}
    assert not {"{", "}", "=", ";\n", "    "} & {part for part in ("{", "}", "=", ";\n", "    ") if part in text}


@pytest.mark.parametrize("name", ["evaluation_text", "evaluation_texts", "evaluation_ids"])
def test_the_lab_has_it(name):
    assert name in dir(lab)
