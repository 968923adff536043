"""What this process holds: every tensor and array that is alive, whoever knows it."""

from __future__ import annotations

import gc

import numpy as np
import torch


def storages() -> dict[int, int]:
    """Bytes of each tensor storage and array that Python can reach, by its place in memory.

    Attributes, lists, closures, caches: it does not matter how it is held. Two views of one storage count once.
    """
    gc.collect()
    objects = gc.get_objects()
    found: dict[int, int] = {}
    for thing in (*objects, *gc.get_referents(*objects)):
        kind = type(thing)  # an object may lie about its class
        if issubclass(kind, torch.Tensor) and thing.layout is torch.strided and thing.device.type != "meta":
            storage = thing.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
        elif issubclass(kind, np.ndarray) and thing.base is None:
            found[thing.__array_interface__["data"][0]] = thing.nbytes
    return found


def added(before: dict[int, int]) -> int:
    """Bytes of what is alive now and was not in `before`."""
    return sum(size for place, size in storages().items() if place not in before)
