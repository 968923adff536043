"""Published ceilings and the figures of chapter 02: numbers with sources, and words where nothing can be drawn."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

from autograder import lab
from autograder.chapters.c02_the_fastest_possible import Step, _plain
from autograder.exercise import Challenge

KNOWN = lab.ceilings()


def test_every_published_number_has_a_date_and_a_source():
    assert KNOWN.date == "November 2026"
    assert {gpu.source for gpu in KNOWN.gpus.values()} == {"vendor's data sheet", "second-hand"}
    assert all(result.source for result in KNOWN.results)


def test_peaks_are_in_bytes_and_operations_per_second():
    h100 = KNOWN.gpus["H100 SXM"]
    assert (h100.bandwidth, h100.operations) == (3350e9, 989e12)


@pytest.mark.parametrize(
    "name, billions",
    [("Qwen2.5-0.5B", 0.494), ("Qwen3-0.6B", 0.596), ("Llama-3.2-1B", 1.236), ("Llama-2-7B", 6.738),
     ("Qwen2.5-7B", 7.616), ("Llama-3.1-8B", 8.030), ("Qwen3-8B", 8.191)],
)  # fmt: skip
def test_a_published_config_makes_the_published_number_of_parameters(name, billions):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(KNOWN.models[name])
    assert sum(weight.numel() for weight in model.parameters()) / 1e9 == pytest.approx(billions, rel=1e-3)


@pytest.mark.parametrize("context, batch", [(0, 296), (256, 847), (394, None), (4096, None)])
def test_the_crossover_of_an_8b_model_on_an_h100(context, batch):
    h100, config = KNOWN.gpus["H100 SXM"], _plain(KNOWN.models["Llama-3.1-8B"])
    machine = {"bandwidth": h100.bandwidth, "operations": h100.operations}
    sizes = {"context": context, "bytes_per_weight": 2, "bytes_per_kv": 2}
    found = Step.of(Challenge({"config": config} | machine | sizes)).crossover
    assert found == batch if batch is None else abs(found - batch) <= 1


def stub(*args, **options):
    raise NotImplementedError


@pytest.mark.parametrize("answer", [stub, lambda *args, **options: None, lambda *args, **options: -1.0])
def test_a_figure_of_code_that_says_nothing_says_so_in_words(answer, capsys):
    config, h100 = lab.config("shape:tiny"), KNOWN.gpus["H100 SXM"]
    lab.draw.operations_per_token(answer, config, [1, 16])
    lab.draw.floors(answer, config, h100, [0], bytes_per_weight=2, bytes_per_kv=2)
    lab.draw.step_parts(answer if answer is stub else answer())
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 3 and all("othing to draw" in line or "is not written yet" in line for line in told)


def test_a_crossover_that_is_no_number_is_drawn_all_the_same(capsys):
    config, h100 = lab.config("shape:tiny"), KNOWN.gpus["H100 SXM"]
    for crossover in (None, "many", -3, float("nan")):
        lab.draw.floors(
            lambda *args, **options: 1.0, config, h100, [0, 16], crossover_batch=lambda *args, c=crossover, **options: c
        )
    assert capsys.readouterr().out == ""
