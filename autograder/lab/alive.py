"""What this process holds: every tensor and array that is alive, whoever knows it."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import torch


def storages() -> dict[int, int]:
    """Bytes of each tensor storage and array that Python can reach, by its place in memory.

    Attributes, lists, closures, caches: it does not matter how it is held. Two views of one storage count once.
    """
    gc.collect()
    found: dict[int, int] = {}
    things = gc.get_objects()
    while things:
        for thing in things:
            kind = type(thing)  # an object may lie about its class
            if issubclass(kind, torch.Tensor):
                with warnings.catch_warnings(action="ignore"):  # of a compiler's stand-ins, which have no memory
                    found |= _storage(thing)
            elif issubclass(kind, np.ndarray) and thing.base is None:
                found[thing.__array_interface__["data"][0]] = thing.nbytes
        # the collector knows neither arrays nor dicts and tuples of nothing but such: they are found by who holds them
        held = gc.get_referents(*(thing for thing in things if type(thing) in (dict, tuple) or gc.is_tracked(thing)))
        things = [thing for thing in held if not gc.is_tracked(thing) and type(thing) in _UNTRACKED]
    return found


_UNTRACKED = (dict, tuple, np.ndarray)


def _storage(tensor: torch.Tensor) -> dict[int, int]:
    """The tensor's storage; nothing for one without memory of its own (meta, sparse, a compiler's stand-in)."""
    try:
        with torch._C.DisableTorchFunctionSubclass():
            storage = tensor.untyped_storage()
            return {storage.data_ptr(): storage.nbytes()} if tensor.device.type != "meta" else {}
    except (RuntimeError, NotImplementedError):
        return {}


def added(before: dict[int, int]) -> int:
    """Bytes of what is alive now and was not in `before`."""
    return sum(size for place, size in storages().items() if place not in before)
