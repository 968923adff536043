"""What others publish: GPUs' peaks, models' geometry, measured speeds. All of it stands in `ceilings.json`, dated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_FILE = Path(__file__).parent / "ceilings.json"


@dataclass(frozen=True)
class Gpu:
    """A GPU as published: no program reaches these rates."""

    name: str
    bandwidth: float  # bytes per second
    operations: float  # per second, dense, bfloat16 (float16 where there is none); a multiply-add counts as two
    source: str


@dataclass(frozen=True)
class Speed:
    """A published speed of decode, one request at a time."""

    what: str
    model: str
    gpu: str
    bytes_per_weight: float
    tokens_per_second: float
    source: str


@dataclass(frozen=True)
class Ceilings:
    """Published numbers with the date at which they were read."""

    date: str
    gpus: dict[str, Gpu]
    models: dict[str, PreTrainedConfig]
    results: tuple[Speed, ...]


@cache
def ceilings() -> Ceilings:
    """GPUs, models and measured speeds as published; a Gpu can stand where a machine is asked for."""
    data = json.loads(_FILE.read_text())
    gpus = {
        name: Gpu(name, gpu["gb_per_s"] * 1e9, gpu["tflops"] * 1e12, gpu["source"])
        for name, gpu in data["gpus"].items()
    }
    models = {name: _config(dict(geometry)) for name, geometry in data["models"].items()}
    return Ceilings(data["date"], gpus, models, tuple(Speed(**result) for result in data["results"]))


def _config(geometry: dict) -> PreTrainedConfig:
    from transformers import AutoConfig

    from . import models

    if shape := geometry.pop("shape", None):
        return models.config(f"shape:{shape}")
    return AutoConfig.for_model(geometry.pop("model_type"), **geometry)
