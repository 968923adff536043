"""What chapter 04 needs of the lab: weights that rotate, bytes that are counted, answers that a lesson can use."""

from __future__ import annotations

import json
import textwrap

import numpy as np
import pytest
import torch

from autograder import lab
from autograder.course import answers, progress


def test_a_pool_depends_on_its_seed_alone_and_has_the_same_numbers_in_every_dtype():
    whole = lab.rotation.pool(100_003, 5)
    assert whole.dtype == torch.int8 and len(whole) == 100_003
    assert (whole.min().item(), whole.max().item()) == (-127, 127)
    assert lab.rotation.pool(100_003, 5, torch.float32).to(torch.int8).equal(whole)
    assert not lab.rotation.pool(100_003, 6).equal(whole)
    assert whole.float().std().item() == pytest.approx(lab.rotation.NUMBER_STD, rel=0.02)


def test_a_pool_of_several_chunks_is_the_same_as_one(monkeypatch):
    whole = lab.rotation.pool(4096, 1).clone()
    lab.rotation.pool.cache_clear()
    monkeypatch.setattr(lab.rotation, "CHUNK", 1024)
    assert lab.rotation.pool(4096, 1).equal(whole)


def test_what_rotates_is_more_than_any_cache_keeps_unless_memory_is_short(monkeypatch):
    monkeypatch.setattr(lab.rotation, "free_memory_bytes", lambda: 64 << 30)
    monkeypatch.setattr(lab.rotation, "last_level_cache_bytes", lambda: 300 << 20)
    assert lab.rotation.rotation_bytes() == 1200 << 20
    monkeypatch.setattr(lab.rotation, "last_level_cache_bytes", lambda: 8 << 20)
    assert lab.rotation.rotation_bytes() == lab.rotation.LEAST_BYTES
    monkeypatch.setattr(lab.rotation, "free_memory_bytes", lambda: 1 << 30)
    assert lab.rotation.rotation_bytes() == 128 << 20


def test_something_is_made_once_for_a_key():
    made = []
    for key in (1, 1, 2, 2):
        assert lab.rotation.once(key, lambda: made.append(0) or [len(made)]) == [len(made)]
    assert len(made) == 2


@pytest.mark.parametrize("hide", ["attribute", "list", "closure", "numpy", "view"])
def test_bytes_are_counted_wherever_they_are_kept(hide):
    ways = {
        "attribute": lambda big: type("Thing", (), {"weight": big}),
        "list": lambda big: [[big]],
        "closure": lambda big: lambda: big,
        "numpy": lambda big: [{"array": big.numpy().copy()}],
        "view": lambda big: [big[:4]],
    }
    before = lab.alive.storages()
    kept = ways[hide](torch.ones(1 << 18))
    assert lab.alive.added(before) >= 1 << 20
    del kept
    assert lab.alive.added(before) < 1 << 16


def test_two_views_of_one_storage_count_once():
    before = lab.alive.storages()
    big = torch.ones(1 << 18)
    views = [big.view(512, 512), big[5:], big.view(512, 512).T, big.numpy()]
    assert 1 << 20 <= lab.alive.added(before) < (1 << 20) + (1 << 16)
    del views


def test_a_small_model_of_any_family_depends_on_its_seed_alone():
    geometry = {"model_type": "qwen2", "vocab_size": 211, "hidden_size": 64, "num_hidden_layers": 1}
    geometry |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96}
    one, same, other = (lab.models.random_model(geometry, seed=seed) for seed in (1, 1, 2))
    table = one.get_input_embeddings().weight
    assert table.equal(same.get_input_embeddings().weight) and one is not same
    assert not table.equal(other.get_input_embeddings().weight)
    assert np.isclose(table.std().item(), 0.25, rtol=0.05)


# Answers that a lesson uses


@pytest.fixture
def learner(tmp_path, monkeypatch):
    """Put code into a learner's copy of assignment 04, and points into their progress."""
    monkeypatch.setenv("AUTOGRADER_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setattr(answers, "repository", lambda: tmp_path)

    def has(source: str, points: float) -> None:
        folder = tmp_path / "work/assignments/04_quantize_weights"
        folder.mkdir(parents=True, exist_ok=True)
        cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": textwrap.dedent(source), "outputs": []}
        content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (folder / "04_quantize_weights.ipynb").write_text(json.dumps(content))
        progress.record("speedup_bound", points, 2)

    return has


MINE = """
    half = 0.5
    def speedup_bound(bytes_before, bytes_after, *, overhead_s, bandwidth):
        return half
"""


def test_a_lesson_uses_the_learners_own_code_when_it_earned_full_marks(learner):
    learner(MINE, 2)
    speedup_bound, whose = answers.answer("speedup_bound")
    assert whose == "yours" and speedup_bound(1, 1, overhead_s=0, bandwidth=1) == 0.5


@pytest.mark.parametrize(("source", "points"), [(MINE, 1), ("def speedup_bound(:", 2), ("speedup_bound = 1 / 0", 2)])
def test_it_uses_the_courses_when_it_did_not_or_when_the_copy_is_broken(learner, source, points):
    learner(source, points)
    speedup_bound, whose = answers.answer("speedup_bound")
    assert whose == "the course's" and speedup_bound(4, 1, overhead_s=0, bandwidth=1) == 4


def test_where_neither_is_there_it_says_what_to_do(learner, monkeypatch):
    monkeypatch.setattr(answers, "references", lambda: lambda name: None)
    assert answers.answer("speedup_bound") == (
        None,
        "speedup_bound is not here yet: do the assignment of this chapter first, then run this lesson again",
    )


@pytest.mark.parametrize("name", ["WHEN_IT_HELPS", "why_weight_only_helps", "nothing"])
def test_a_quiz_or_a_text_is_no_answer_to_be_used(name):
    with pytest.raises(KeyError, match=name):
        answers.answer(name)
