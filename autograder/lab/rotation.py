"""Weights that no cache keeps: a pool of random numbers, several times the last-level cache, to take matrices from.

A product that is timed again and again with the same matrix finds it in the cache, and says nothing of memory. Here
every product takes the next stretch of the pool, and by the time a stretch comes round again it has been evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from .hardware import device, free_memory_bytes, last_level_cache_bytes

if TYPE_CHECKING:
    import torch

LEAST_BYTES = 256 << 20
CHUNK = 32 << 20  # numbers made at a time
NUMBER_STD = 73.6  # of a number drawn evenly from -127 to 127


def rotation_bytes() -> int:
    """How many bytes no cache keeps: four times the last-level cache, at least 256 MiB.

    Less only where an eighth of the free main memory is less: others need room for the same numbers as floats.
    """
    wanted = max(LEAST_BYTES, 4 * last_level_cache_bytes())
    return min(wanted, free_memory_bytes() // 8) // 4096 * 4096


@lru_cache(maxsize=1)
def pool(numbers: int, seed: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Whole numbers from -127 to 127, drawn evenly: [numbers], int8 or another dtype, on `device()`.

    The numbers depend on `seed` alone. Asked twice for the same, a process gets the same tensor.
    """
    import torch

    rng = torch.Generator(device()).manual_seed(seed)
    made = torch.empty(numbers, dtype=dtype or torch.int8, device=device())
    for chunk in made.split(CHUNK):
        eight_at_once = torch.empty(-(-len(chunk) // 8), dtype=torch.int64, device=device())
        drawn = eight_at_once.random_(-(2**63), None, generator=rng).view(torch.int8)[: len(chunk)]
        chunk.copy_(drawn.clamp_(min=-127))
    return made


_made: dict[int, list] = {}


def once(key: int, make: Callable[[], Iterable]) -> list:
    """What `make()` gives, made at the first call with this key and given again at the next ones."""
    if key not in _made:
        _made.clear()
        _made[key] = list(make())
    return _made[key]
