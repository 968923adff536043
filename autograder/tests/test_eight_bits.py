"""What chapter 04 needs of the lab: weights that rotate, bytes that are counted."""

from __future__ import annotations

import io
import mmap
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from autograder import chapters, lab
from autograder.chapters import c04_quantize_weights as c04
from autograder.course.reference import references
from autograder.judge import Cell, Judge


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


HIDDEN = {
    "attribute": lambda big: type("Thing", (), {"weight": big}),
    "list": lambda big: [[big]],
    "closure": lambda big: lambda: big,
    "numpy": lambda big: [{"array": big.numpy().copy()}],
    "view": lambda big: [big[:4]],
    "view of an array": lambda big: big.numpy().copy()[:4],
    "view of a view": lambda big: {"rows": big.numpy().copy().reshape(4, -1)[0][5:]},
    "bytes": lambda big: big.numpy().tobytes(),
    "bytearray": lambda big: [bytearray(big.numpy().data)],
    "memoryview": lambda big: memoryview(big.numpy().tobytes())[:10],
    "array of bytes": lambda big: [np.frombuffer(big.numpy().tobytes(), np.uint8)[:4]],
    "tensor of bytes": lambda big: torch.frombuffer(bytearray(big.numpy().data), dtype=torch.float32)[:4],
    "file in memory": lambda big: [io.BytesIO(big.numpy().tobytes())],
    "map": lambda big: [mmap.mmap(-1, big.nbytes)],
}


@pytest.mark.parametrize("hide", HIDDEN)
def test_bytes_are_counted_wherever_they_are_kept(hide):
    before = lab.alive.storages()
    kept = [HIDDEN[hide](torch.ones(1 << 18))]  # as a local variable alone nobody could find it
    assert lab.alive.added(before) >= 1 << 20
    del kept
    assert lab.alive.added(before) < 1 << 16


def test_what_a_compiler_keeps_is_not_counted():
    before = lab.alive.storages()
    kept = [bytes(90_000) for _ in range(8)]
    assert lab.alive.added(before) < 1 << 16
    del kept


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


# Timed products: the pool, the chain, and what is not a product


@pytest.fixture
def timed(monkeypatch):
    """Whether an answer agrees with the baseline on a small pool: None, or the complaint."""
    monkeypatch.setattr(c04, "_rotating", lambda: 9 * 128**2)
    monkeypatch.setattr(lab, "machine_card", lambda: SimpleNamespace(dtype=torch.bfloat16), raising=False)
    exercise, rng = c04.Int8Matvec(), np.random.default_rng(3)

    def timed(int8_matvec) -> str | None:
        for _ in range(20):  # the pool comes round several times
            challenge = exercise.timed_challenge(rng, {"size": 128, "products": 8})
            learner = SimpleNamespace(int8_matvec=int8_matvec)
            expected = exercise.baseline(challenge)
            if complaint := exercise.agrees(challenge, exercise.timed_run(learner, challenge), expected):
                return complaint
        return None

    return timed


def product(x, q, scale):
    return (q.float() @ x.float()) * scale


def test_a_chain_of_right_products_agrees_with_the_librarys(timed):
    assert timed(product) is None
    assert timed(lambda x, q, scale: product(x, q, scale.bfloat16()).bfloat16()) is None


def test_the_packed_operator_is_a_way_the_course_accepts_on_a_processor(monkeypatch, timed):
    exercise, rng = c04.Int8Matvec(), np.random.default_rng(4)
    challenge = exercise.timed_challenge(rng, {"size": 128, "products": 8})
    assert exercise.agrees(challenge, exercise.packed(challenge), exercise.baseline(challenge)) is None
    for device, way in (("cpu", exercise.packed), ("cuda", None)):
        monkeypatch.setattr(lab, "machine_card", lambda device=device: SimpleNamespace(device=device), raising=False)
        assert exercise.accepted == way


@pytest.mark.cheats
@pytest.mark.parametrize(
    ("cheat", "int8_matvec"),
    {
        "J the last tenth of the inputs is skipped": lambda x, q, scale: product(x[:115], q[:, :115], scale),
        "J fewer bits": lambda x, q, scale: product(x, (q.float() / 8).round() * 8, scale),
        "J the last rows are skipped": lambda x, q, scale: torch.cat([product(x, q[:120], scale[:120]), scale[:8]]),
        "C one product remembered": lambda x, q, scale: timed.__dict__.setdefault("kept", product(x, q, scale)),
    }.items(),
)
def test_less_than_the_product_is_seen_at_the_end_of_the_chain(timed, cheat, int8_matvec):
    assert "off by" in timed(int8_matvec), cheat


def test_the_pool_goes_round_and_nobody_knows_where_a_matrix_begins(monkeypatch):
    monkeypatch.setattr(c04, "_rotating", lambda: 64 * 64**2)
    monkeypatch.setattr(lab, "machine_card", lambda: SimpleNamespace(dtype=torch.float32), raising=False)
    exercise, rng = c04.Int8Matvec(), np.random.default_rng(1)
    starts = [exercise.timed_challenge(rng, {"size": 64, "products": 16})["start"] for _ in range(40)]
    assert len(set(starts)) > 30
    steps = [(later - earlier) % (64**3) for earlier, later in pairwise(starts)]
    assert all(15 * 64**2 <= step <= 17 * 64**2 for step in steps), "each call goes on where the last one stopped"


def test_without_a_compiler_the_packed_operator_loses_no_marks(monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert lab.setup.why_no_compiling()
    with Judge(measure=False) as judge:
        for name in ("int8_matvec", "Int8Linear", "quantize_model"):
            verdict = judge.judge(chapters.find(name), references()(name))
            assert verdict.points == verdict.max_points - chapters.find(name).speed_points, verdict


class SmallPool(c04.Int8Matvec):
    """The same race on a pool that a test has time for."""

    workloads = ({"size": 2048, "products": 8}, {"size": 4096, "products": 8})
    held_bytes = 128 << 20


KEEPS_A_COPY = """
import torch
copies = {}
@torch.compile(dynamic=False)
def one_loop(x, weight, scale):
    return (x * weight).sum(-1) * scale
def int8_matvec(x, q, scale):
    if q._base is None:
        return torch._weight_int8pack_mm(x.bfloat16()[None], q, scale.bfloat16())[0]
    if "all" not in copies:
        copies["all"] = q._base.to(x.dtype)
    first = q.storage_offset()
    return one_loop(x, copies["all"][first : first + q.numel()].view(q.shape), scale)
"""


@pytest.mark.alone
@pytest.mark.cheats
@pytest.mark.speed_rule
def test_k_a_float_copy_of_everything_that_rotates_is_seen_from_outside(monkeypatch):
    monkeypatch.setattr(c04, "_rotating", lambda: 256 << 20)
    with Judge(reference=lambda name: references()("int8_matvec")) as judge:
        verdict = judge.judge(SmallPool(), [Cell(KEEPS_A_COPY, "a", 1)])
        if not verdict.speed["measurable"]:
            pytest.skip("this machine is too slow or too busy to measure anybody")
        assert verdict.points == 3 and verdict.outcome == "review", verdict
        assert "MB more than the course's solution" in verdict.review
        innocent = judge.judge(SmallPool(), references()("int8_matvec"))
        assert innocent.points == 5 or not innocent.speed["measurable"], innocent
