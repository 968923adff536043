"""The figures that draw what a learner's chapter 06 code does: also when it does nothing, or something strange."""

from __future__ import annotations

import pytest

from autograder import lab


def stub(*args, **options):
    raise NotImplementedError


def strange(*args, **options):
    return 7


class Empty:
    """A prefix cache that is not written yet."""

    def __init__(self, block_tokens, max_blocks):
        self.seen_tokens = self.hit_tokens = 0

    def match(self, tokens):
        raise NotImplementedError

    insert = match


class Strange(Empty):
    def match(self, tokens):
        return None

    def insert(self, tokens, cache):
        pass


@pytest.mark.parametrize("answer", [stub, strange])
def test_a_function_that_says_nothing_is_drawn_in_words(answer, capsys):
    lab.draw.named_blocks(answer, block_tokens=4)
    lab.draw.prompt_order(answer, [("date", 12, 0.0), ("rules", 600, 1.0)])
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 2 and all("othing to draw" in line or "is not written yet" in line for line in told), told


@pytest.mark.parametrize("cache", [Empty, Strange, stub])
def test_a_prefix_cache_that_holds_nothing_is_drawn_in_words(cache, capsys):
    lab.draw.stored_prefixes(cache)
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 1 and ("is not written yet" in told[0] or "raised" in told[0]), told


def test_hashes_that_are_equal_share_a_letter(monkeypatch):
    told = []
    monkeypatch.setattr("autograder.lab.draw.prefixes.show", lambda figure, text: told.append(text))
    lab.draw.named_blocks(lambda tokens, n: [b"x"] * (len(tokens) // n), block_tokens=4)
    assert "a prompt: AAA; the same beginning: AA;" in told[0]
