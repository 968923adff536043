"""The machine card: what this machine's memory, arithmetic and synchronising can do, measured here.

Rates are those of the quickest of many passes, for the course draws them as limits; all samples are kept.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import torch
import transformers

from .cache import cache_dir, writable_cache_dir, write_atomically
from .errors import LabError
from .hardware import device, last_level_cache_bytes, memory_limit_bytes, processor_name, sync, usable_cores
from .progress import Progress, line, patient


@dataclass(frozen=True)
class Machine:
    """One machine, as measured."""

    name: str  # of the processor or the GPU
    device: str  # "cpu" or "cuda"
    cores: int  # that this process may use
    threads: int  # that torch uses
    dtype: torch.dtype  # the faster of float32 and bfloat16 in a matrix product
    bandwidth: float  # bytes per second read from memory
    operations: float  # per second in `dtype`; a multiply-add counts as two
    operations_by_dtype: dict[str, float]
    sync_seconds: float  # one lab.sync() with nothing to wait for
    memory_bytes: int  # of the device
    last_level_cache_bytes: int
    quiet: bool  # False: something else was running, and the rates are too low
    torch: str
    transformers: str
    measured_at: str  # UTC, ISO 8601
    samples: dict[str, dict] = field(default_factory=dict, repr=False)  # probe -> work per pass, seconds of each

    def to_json(self) -> dict:
        """Plain data that travels with a recorded figure."""
        return asdict(self) | {"dtype": str(self.dtype).removeprefix("torch.")}

    @classmethod
    def from_json(cls, data: dict) -> Machine:
        """The machine that `to_json` described."""
        return cls(**data | {"dtype": getattr(torch, data["dtype"])})

    def __str__(self) -> str:
        rates = ", ".join(f"{rate / 1e9:,.0f} in {kind}" for kind, rate in self.operations_by_dtype.items())
        return (
            f"{self.name} ({self.device}), {self.cores} cores, {self.threads} threads\n"
            f"reads memory at {self.bandwidth / 1e9:,.1f} GB/s, multiplies at (GFLOP/s) {rates}\n"
            f"one synchronise {self.sync_seconds * 1e6:.2g} us, memory {self.memory_bytes / 1e9:,.1f} GB, "
            f"last-level cache {self.last_level_cache_bytes / 1e6:,.0f} MB\n"
            f"torch {self.torch}, transformers {self.transformers}, measured {self.measured_at}"
            + ("" if self.quiet else "\nmeasured while something else was running: measure again when it is quiet")
        )


_cards: dict[str, Machine] = {}  # this process's own copy, by `_key()`


def machine_card(refresh: bool = False, progress: Progress = line) -> Machine:
    """This machine's card: the recorded one, else measured now (two to eight seconds) and recorded.

    `refresh` measures anew. A card measured on a busy machine serves the process that measured it, never
    replaces a better one on disk, and is measured anew by the next process. Shows progress after two seconds.
    """
    mine, kept = _cards.get(_key()), _on_disk()
    if not refresh and (mine or (kept and kept.quiet)):
        return mine or kept
    card = _cards[_key()] = _measured(patient(progress))
    if card.quiet or not (kept and kept.quiet):
        with suppress(LabError, OSError):  # a card that cannot be kept is still a card
            writable_cache_dir()
            write_atomically(_path(), json.dumps(_all_on_disk() | {_key(): card.to_json()}, indent=1))
    return card


def recorded() -> Machine | None:
    """The card of this host, processor, core count and torch, if one was ever measured; never measures."""
    return _cards.get(_key()) or _on_disk()


def _on_disk() -> Machine | None:
    with suppress(TypeError, KeyError, AttributeError):  # written by another version of the course
        return Machine.from_json(_all_on_disk()[_key()])
    return None


def _path() -> Path:
    return cache_dir() / "machine.json"


def _key() -> str:
    return f"{platform.node()} | {processor_name()} | {usable_cores()} cores | torch {torch.__version__}"


def _all_on_disk() -> dict:
    try:
        known = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _measured(progress: Progress, patience: float = 3.0) -> Machine:
    """The card; on a busy machine the best of the attempts begun in `patience` seconds, no more than a hint."""
    start = time.perf_counter()
    probes = []
    while not probes or (not _is_quiet(probes[-1]) and time.perf_counter() - start < patience):
        again = " again, for something else is running" if probes else ""
        probes.append(_probe(f"measuring this machine{again}: ", progress))
    progress("measured this machine", 1.0)
    samples = {
        name: min((probe[name] for probe in probes), key=lambda sample: min(sample["seconds"]) / sample["work"])
        for name in probes[0]
    }
    rates = {name: sample["work"] / min(sample["seconds"]) for name, sample in samples.items()}
    faster = "bfloat16" if rates["bfloat16"] > 1.1 * rates["float32"] else "float32"
    on_gpu = device().type == "cuda"
    return Machine(
        name=processor_name(),
        device=device().type,
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        dtype=getattr(torch, faster),
        bandwidth=rates["read"],
        operations=rates[faster],
        operations_by_dtype={name: rates[name] for name in ("float32", "bfloat16")},
        sync_seconds=median(samples["sync"]["seconds"]),
        memory_bytes=torch.cuda.mem_get_info()[1] if on_gpu else memory_limit_bytes(),
        last_level_cache_bytes=last_level_cache_bytes(),
        quiet=_is_quiet(samples),
        torch=torch.__version__,
        transformers=transformers.__version__,
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        samples=samples,
    )


def _probe(doing: str, progress: Progress) -> dict[str, dict]:
    """One round of every probe: what one pass does, the seconds of each pass, the share of the cores it got."""
    samples = {}
    for step, dtype in enumerate(("float32", "bfloat16")):
        progress(f"{doing}{dtype} matrix products", 0.3 * step)
        samples[dtype] = _matmul_samples(getattr(torch, dtype))
    progress(f"{doing}reading memory", 0.6)
    samples["read"] = _read_samples()
    samples["sync"] = {"work": 1} | _passes(sync, seconds=0.02)
    return samples


def _is_quiet(samples: dict[str, dict]) -> bool:
    """Whether the probes that keep every core busy got the cores they asked for."""
    return device().type == "cuda" or min(samples[name]["cpu_share"] for name in ("float32", "read")) > 0.85


def _matmul_samples(dtype: torch.dtype) -> dict:
    """Square products, doubled in size until one lasts 20 ms: a dtype that is slow here stays small."""
    for size in (256, 512, 1024, 2048, 4096, 8192):
        left, right = (torch.randn(size, size, device=device()).to(dtype) for _ in range(2))
        passes = _passes(lambda: left @ right, seconds=0.02)  # noqa: B023
        if min(passes["seconds"]) > 0.02:
            break
    return {"work": 2 * size**3} | _passes(lambda: left @ right, seconds=0.3)


def _read_samples() -> dict:
    """Sums over one buffer of at least four times the last-level cache, so that no pass finds it cached."""
    on_gpu = device().type == "cuda"
    enough = min(8 << 30, torch.cuda.mem_get_info()[0] // 4) if on_gpu else 512 << 20
    numbers = max(4 * last_level_cache_bytes(), enough) // 4
    buffer = torch.ones(numbers, device=device())
    return {"work": 4 * numbers} | _passes(buffer.sum, seconds=0.5)


def _passes(work: Callable[[], object], *, seconds: float) -> dict:
    """Seconds of each pass of `work`: one uncounted, then at least three, and on until `seconds` are spent.

    `cpu_share`: the processor time this process got, over threads times wall time.
    """
    work()
    sync()
    taken = []
    processor = time.process_time()
    while len(taken) < 3 or (sum(taken) < seconds and len(taken) < 200):
        start = time.perf_counter()
        work()
        sync()
        taken.append(time.perf_counter() - start)
    processor = time.process_time() - processor
    return {"seconds": taken, "cpu_share": processor / (sum(taken) * torch.get_num_threads())}
