"""The learner's bench: models, the machine card, drawing, set-up and the doctor."""

import dataclasses
import json
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from autograder import lab
from autograder.lab import cache, doctor, hardware, machine, models, progress, setup
from autograder.lab.draw import style


def is_one_sentence(text):
    return "\n" not in text and text.endswith(".") and len(text) < 400


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_CACHE", str(tmp_path))
    monkeypatch.setattr(machine, "_cards", {})
    return tmp_path


@pytest.fixture(scope="module")
def tiny():
    return lab.load_model("shape:tiny")


def test_importing_the_lab_does_not_import_torch():
    code = "import sys, autograder.lab as lab; lab.clock(); lab.cache_dir(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lab.nothing  # noqa: B018
    assert "load_model" in dir(lab)


# models


def test_tiny_has_grouped_heads_an_explicit_head_size_and_wide_weights(tiny):
    config = tiny.config
    assert config.num_attention_heads > config.num_key_value_heads > 1
    assert config.head_dim != config.hidden_size // config.num_attention_heads
    assert tiny.dtype == torch.float32 and not tiny.training
    for weight in tiny.parameters():
        if weight.ndim == 2:
            assert weight.std().item() == pytest.approx(0.25, rel=0.05)
        else:
            assert torch.all(weight == 1)


def generate(model, ids, new_tokens, *, spoil=lambda cache: None, restart=False):
    """Greedy tokens with the cache; `spoil` sees the cache after prefill, `restart` numbers positions from 0."""
    found = []
    kv = lab.new_cache(model)
    with torch.inference_mode():
        for step in range(new_tokens):
            if restart and step:
                positions = torch.arange(ids.shape[1])[None]
                keyword = {models._cache_keyword(type(model)): kv}
                logits = model(ids, position_ids=positions, use_cache=True, **keyword).logits[:, -1:]
            else:
                logits = lab.forward(model, ids, kv)
            if not step:
                spoil(kv)
            ids = logits[:, -1].argmax(-1, keepdim=True)
            found.append(ids.item())
    return found


def zero_keys_and_values(kv):
    for layer in kv.layers:
        layer.keys.zero_()
        layer.values.zero_()


@pytest.mark.parametrize("seed", range(5))
def test_each_cache_mistake_changes_the_tokens_of_tiny(tiny, seed):
    rng = torch.Generator().manual_seed(seed)
    ids = lab.random_prompt(12, vocab_size=tiny.config.vocab_size, rng=rng)
    right = generate(tiny, ids, 16)
    assert right == generate(tiny, ids, 16)
    assert right != generate(tiny, ids, 16, restart=True), "restarted positions went unnoticed"
    assert right != generate(tiny, ids, 16, spoil=zero_keys_and_values), "zeroed K/V went unnoticed"
    assert right != generate(tiny, ids[:, 1:], 16), "a dropped first token went unnoticed"
    assert right != generate(tiny, ids[:, :-1], 16), "a dropped last token went unnoticed"


def test_cached_logits_are_the_uncached_ones(tiny):
    ids = lab.random_prompt(20, vocab_size=211, rng=torch.Generator().manual_seed(1))
    kv = lab.new_cache(tiny)
    with torch.inference_mode():
        whole = lab.forward(tiny, ids, keep=0)
        first = lab.forward(tiny, ids[:, :13], kv, keep=0)
        rest = lab.forward(tiny, ids[:, 13:], kv, keep=3)
    assert whole.shape == (1, 20, 211) and first.shape == (1, 13, 211) and rest.shape == (1, 3, 211)
    torch.testing.assert_close(first, whole[:, :13], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(rest, whole[:, -3:], atol=1e-4, rtol=1e-4)


def test_a_cache_that_does_not_grow_is_an_error(tiny):
    class Forgetful:
        def __call__(self, ids, cache, use_cache, logits_to_keep):
            return types.SimpleNamespace(logits=None)

        forward = __call__

    with pytest.raises(lab.LabError, match="grew by 0 tokens where 4 were fed"):
        lab.forward(Forgetful(), torch.zeros(1, 4, dtype=torch.int64), lab.new_cache(tiny))


def test_models_are_the_same_object_and_their_weights_depend_on_the_seed_alone(tiny):
    assert lab.load_model("shape:tiny") is tiny
    again = models._model.__wrapped__("shape:tiny", torch.float32, False, None, None, 0, "cpu")
    other = lab.load_model("shape:tiny", seed=1)
    assert all(torch.equal(a, b) for a, b in zip(tiny.parameters(), again.parameters(), strict=True))
    assert not torch.equal(tiny.lm_head.weight, other.lm_head.weight)


def test_a_shallow_stack_of_a_real_shape():
    shallow = lab.load_model("shape:smollm2-135m", layers=2, vocab_size=300, dtype=torch.bfloat16)
    assert len(shallow.model.layers) == 2 and shallow.lm_head.weight.shape == (300, 576)
    assert shallow.dtype == torch.bfloat16
    assert shallow.lm_head.weight is shallow.model.embed_tokens.weight
    with torch.inference_mode():
        assert lab.forward(shallow, lab.random_prompt(5, vocab_size=300)).isfinite().all()


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("smollm2-135m", 134_515_008),
        ("shape:smollm2-135m", 134_515_008),
        ("shape:llama-3.2-1b", 1_235_814_400),
        ("shape:llama-3.1-8b", 8_030_261_248),
    ],
)
def test_shapes_have_the_published_number_of_parameters(name, parameters):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(lab.config(name))
    assert sum(weight.numel() for weight in model.parameters()) == parameters


def test_weight_bytes_leave_out_an_untied_input_embedding(tiny):
    everything = sum(weight.numel() for weight in tiny.parameters())
    assert lab.weight_bytes(tiny) == 4 * (everything - 211 * 64)
    tied = lab.load_model("shape:smollm2-135m", layers=2, vocab_size=300, dtype=torch.bfloat16)
    assert lab.weight_bytes(tied) == 2 * sum(weight.numel() for weight in tied.parameters())


def test_a_random_prompt_covers_the_vocabulary_and_repeats_with_its_generator():
    ids = lab.random_prompt(500, vocab_size=7, rng=torch.Generator().manual_seed(3))
    assert ids.shape == (1, 500) and ids.dtype == torch.int64
    assert sorted(set(ids[0].tolist())) == list(range(7))
    assert torch.equal(ids, lab.random_prompt(500, vocab_size=7, rng=torch.Generator().manual_seed(3)))
    assert not torch.equal(lab.random_prompt(50, vocab_size=99), lab.random_prompt(50, vocab_size=99))


def test_course_model_names_the_default(monkeypatch, tiny):
    monkeypatch.setenv("COURSE_MODEL", "shape:tiny")
    assert lab.load_model() is tiny


def test_a_saved_folder_loads(tmp_path, tiny):
    tiny.save_pretrained(tmp_path)
    loaded = lab.load_model(str(tmp_path), dtype=torch.float32)
    assert torch.equal(loaded.lm_head.weight, tiny.lm_head.weight)


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: lab.load_model("shape:enormous"), "not a shape of this course"),
        (lambda: lab.load_model("/no/such/folder"), "no model folder"),
        (lambda: lab.load_model("smollm2-135m", layers=2), "change a 'shape:' model"),
        (lambda: lab.load_tokenizer("shape:tiny"), "no tokenizer"),
        (lambda: lab.config("shape:enormous"), "not a shape of this course"),
    ],
)
def test_a_model_that_cannot_be_had_is_one_sentence(ask, message):
    with pytest.raises(lab.LabError, match=message) as caught:
        ask()
    assert is_one_sentence(str(caught.value))


def test_a_folder_without_a_model_is_one_sentence(tmp_path):
    with pytest.raises(lab.LabError, match="cannot be loaded") as caught:
        lab.load_model(str(tmp_path), dtype=torch.float32)
    assert is_one_sentence(str(caught.value).replace(str(tmp_path), "FOLDER"))


def test_an_unreachable_hub_is_one_sentence(monkeypatch):
    def offline(*_, **__):
        raise OSError("We couldn't connect to the hub.\nCheck your connection.")

    monkeypatch.setattr(models.AutoModelForCausalLM, "from_pretrained", offline)
    with pytest.raises(lab.LabError, match="give a hub id that this machine can reach") as caught:
        lab.load_model("someone/some-model", dtype=torch.float32)
    assert is_one_sentence(str(caught.value))


def test_a_notebook_shows_the_sentence_without_a_traceback():
    assert lab.LabError("do this.")._render_traceback_() == ["do this."]


# the machine


def write_cgroup(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    "files, cores",
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "300000 100000\n"}, 3),
        ({"cpu.max": "150000 100000\n"}, 1),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu__cpu.cfs_quota_us": "-1\n", "cpu__cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu__cpu.cfs_quota_us": "200000\n", "cpu__cpu.cfs_period_us": "100000\n"}, 2),
    ],
)
def test_usable_cores_come_from_affinity_and_quota(tmp_path, monkeypatch, files, cores):
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    monkeypatch.setattr(hardware.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    write_cgroup(tmp_path, **files)
    assert hardware.usable_cores() == cores


def test_memory_is_cut_to_the_cgroup_and_file_cache_counts_as_free(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    limit, used, cached = 600 << 20, 500 << 20, 300 << 20
    stat = f"anon 1\ninactive_file {cached}\n"
    write_cgroup(tmp_path, **{"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat})
    assert hardware.memory_limit_bytes() == limit
    assert hardware.free_memory_bytes() == limit - used + cached


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOGRADER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(machine, "_cards", {})
        return lab.machine_card(progress=progress.silent)


def test_the_card_measures_this_machine(card):
    assert card.cores >= 1 and card.threads >= 1 and card.dtype in (torch.float32, torch.bfloat16)
    assert 1e8 < card.bandwidth < 1e14
    assert card.operations == card.operations_by_dtype[str(card.dtype).removeprefix("torch.")]
    assert card.operations >= 0.9 * max(card.operations_by_dtype.values())
    assert 0 < card.sync_seconds < 0.01
    assert card.samples["read"]["work"] >= 4 * card.last_level_cache_bytes
    assert all(len(sample["seconds"]) >= 3 for sample in card.samples.values())
    assert card.name in str(card) and "GB/s" in str(card)


def test_the_card_travels_as_plain_data(card):
    assert lab.Machine.from_json(json.loads(json.dumps(card.to_json()))) == card


@pytest.fixture
def scripted_probe(card, empty_cache, monkeypatch):
    """Cards with bandwidths 1, 2, 3...; whether each is quiet is read from the list that is returned."""
    quiet, made = [True], []

    def measured(progress):
        made.append(dataclasses.replace(card, bandwidth=float(len(made) + 1), quiet=quiet[0]))
        return made[-1]

    monkeypatch.setattr(machine, "_measured", measured)
    return quiet


def forget_in_this_process(monkeypatch):
    monkeypatch.setattr(machine, "_cards", {})


def test_the_card_is_measured_once_and_refreshed_on_request(scripted_probe, monkeypatch):
    assert machine.recorded() is None
    assert lab.machine_card().bandwidth == 1
    forget_in_this_process(monkeypatch)
    assert lab.machine_card().bandwidth == 1
    assert lab.machine_card(refresh=True).bandwidth == 2
    forget_in_this_process(monkeypatch)
    assert lab.machine_card().bandwidth == machine.recorded().bandwidth == 2


def test_a_busy_machine_is_measured_again_by_the_next_process(scripted_probe, monkeypatch):
    scripted_probe[0] = False
    assert lab.machine_card().bandwidth == lab.machine_card().bandwidth == 1
    assert "something else was running" in str(lab.machine_card())
    forget_in_this_process(monkeypatch)
    scripted_probe[0] = True
    assert lab.machine_card().bandwidth == 2
    scripted_probe[0] = False
    assert lab.machine_card(refresh=True).bandwidth == 3
    forget_in_this_process(monkeypatch)
    assert lab.machine_card().bandwidth == 2, "a busy card replaced a quiet one"


def test_a_card_file_that_cannot_be_read_is_measured_anew(scripted_probe, empty_cache):
    for text in ("", "[1]", '{"a": 1}', json.dumps({machine._key(): {"name": "from another version"}})):
        (empty_cache / "machine.json").write_text(text)
        assert machine.recorded() is None
    assert lab.machine_card().bandwidth == 1


def test_a_card_that_cannot_be_kept_is_still_a_card(scripted_probe, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUTOGRADER_CACHE", str(tmp_path / "file" / "below"))
    assert lab.machine_card().bandwidth == lab.machine_card().bandwidth == 1


def test_the_default_dtype_is_the_recorded_cards(scripted_probe):
    assert models._usual_dtype("smollm2-135m") == torch.float32
    recorded = lab.machine_card().dtype
    assert models._usual_dtype("smollm2-135m") == recorded
    assert models._usual_dtype("shape:tiny") == torch.float32


@pytest.mark.parametrize("seconds", [[0.25], (0.25,), np.array([0.25]), torch.tensor([0.25])])
def test_a_stop_watch_is_asked_for_one_call_and_hands_back_what_the_call_gives(seconds):
    asked = []

    def time_calls(work, *, warmup, repeats, sync, clock):
        asked.append((warmup, repeats, sync, clock() >= 0))
        work()
        return seconds

    timed = lab.stopwatch(time_calls)
    assert timed(lambda a, b: a + b, 1, 2) == (3, 0.25) and timed(list) == ([], 0.25)
    assert asked == [(0, 1, lab.sync, True)] * 2


def test_without_a_stop_watch_of_somebodys_a_plain_one_times():
    given, seconds = lab.stopwatch(None)(time.sleep, 0.02)
    assert given is None and seconds >= 0.02


def test_progress_stays_silent_at_first():
    said = []
    progress.patient(lambda *step: said.append(step), seconds=60)("working", 0.5)
    assert said == []
    progress.patient(lambda *step: said.append(step), seconds=0)("working", 0.5)
    assert said == [("working", 0.5)]


def test_a_loop_with_progress_speaks_between_its_items_and_not_at_first(monkeypatch):
    now, said = [0.0], []
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))
    for item in lab.with_progress([1.0] * 5, lambda *step: said.append((now[0], *step))):
        said.append((now[0], item))
        now[0] += item
    spoken = [entry for entry in said if len(entry) == 3]
    assert spoken == [(2.0, "2 of 5", 0.4), (3.0, "3 of 5", 0.6), (4.0, "4 of 5", 0.8), (5.0, "5 of 5", 1.0)]

    spoken = []
    for _ in lab.with_progress([0.01] * 5, lambda *step: spoken.append(step)):
        now[0] += 0.01
    assert spoken == [] and list(lab.with_progress([])) == []


# drawing


def a_figure():
    figure, ax = lab.draw.axes("Longer", x="prompt tokens", y="seconds", log_x=True)
    ax.plot([1, 10, 100], [1, 2, 3], label="points")
    ax.axhline(1.5, **style.FLOOR)
    return figure, ax


def test_axes_say_their_units_and_logarithms_aloud():
    figure, ax = a_figure()
    assert ax.get_xlabel() == "prompt tokens (log scale)" and ax.get_ylabel() == "seconds"
    assert figure.get_facecolor() == (1, 1, 1, 1) and tuple(figure.get_size_inches()) == (7.5, 4.2)
    assert style.png(figure).startswith(b"\x89PNG")


def test_a_figure_outside_a_notebook_shows_nothing():
    lab.draw.show(a_figure()[0], "words")


def test_a_figure_in_a_notebook_carries_its_description(monkeypatch):
    import IPython
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr(IPython.display, "display", lambda data, **options: shown.append((data, options)))
    lab.draw.show(a_figure()[0], 'Three points that "rise" & a floor.')
    (data, options), *others = shown
    assert not others and options["raw"] is True
    assert data["text/plain"] == 'Three points that "rise" & a floor.'
    assert options["metadata"] == {"image/png": {"alt": data["text/plain"]}}
    assert 'alt="Three points that &quot;rise&quot; &amp; a floor."' in data["text/html"]
    assert data["image/png"] in data["text/html"]


# set-up and doctor


def test_without_a_compiler_set_up_says_so_and_goes_on(empty_cache, monkeypatch):
    monkeypatch.setattr(setup.default_model, "ensure", lambda *_, **__: None)
    monkeypatch.setattr(hardware.shutil, "which", lambda name: None)
    (note,) = setup.run(progress.silent)
    assert is_one_sentence(note) and "no C++ compiler" in note


@pytest.mark.skipif(setup.why_no_compiling() is not None, reason="nothing to compile with here")
def test_a_kernel_that_does_not_compile_is_one_sentence(empty_cache, monkeypatch):
    monkeypatch.setattr(setup.default_model, "ensure", lambda *_, **__: None)
    monkeypatch.setattr(setup, "_KERNELS", "raise RuntimeError('no such instruction')")
    (note,) = setup.run(progress.silent)
    assert is_one_sentence(note) and "no such instruction" in note
    monkeypatch.setattr(setup, "_KERNELS", "")
    assert setup.run(progress.silent) == [] and setup._is_warm()


def test_the_doctor_has_one_line_per_item_each_with_a_fix():
    items = doctor.run(no_sandbox="bubblewrap is not installed")
    assert [item.name for item in items] == [
        *("python", "torch", "device", "compiler", "model", "memory", "disk", "extensions", "sandbox")
    ]
    assert all(item.detail and "\n" not in item.detail for item in items)
    assert all(item.fix for item in items if not item.ok)


def test_a_missing_model_and_a_missing_sandbox_are_told_apart(empty_cache):
    (model,), sandbox = doctor._model(), doctor._sandbox("bubblewrap is not installed")
    assert not model.ok and model.needed and "autograder setup" in model.fix
    assert not sandbox.ok and not sandbox.needed and "bubblewrap is not installed" in sandbox.detail


def test_a_cache_that_cannot_be_written_is_a_line_of_the_doctor(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUTOGRADER_CACHE", str(tmp_path / "file" / "below"))
    (disk,) = doctor._disk()
    assert not disk.ok and disk.needed and "AUTOGRADER_CACHE" in disk.fix


def test_the_cache_lies_where_the_variable_says(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOGRADER_CACHE", str(tmp_path / "here"))
    assert lab.cache_dir() == tmp_path / "here" and not lab.cache_dir().exists()
    assert cache.writable_cache_dir().is_dir()
    monkeypatch.delenv("AUTOGRADER_CACHE")
    assert lab.cache_dir().name == "making-generation-faster"
