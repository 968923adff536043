"""What this process holds: every tensor, array and large buffer that is alive, whoever knows it."""

from __future__ import annotations

import array
import ctypes
import gc
import io
import mmap
import warnings
from typing import Any

import numpy as np
import torch

LEAST_BYTES = 1 << 20  # of a buffer that no array shows: smaller ones are names, code, and what torch.compile keeps


def storages() -> dict[int, int]:
    """Bytes of each tensor storage, array and large buffer that Python can reach, by its place in memory.

    Attributes, lists, closures, caches: it does not matter how it is held. Two views of one storage count once.
    """
    gc.collect()
    found: dict[int, int] = {}
    things = gc.get_objects()
    while things:
        kinds = {kind for kind in set(map(type, things)) if issubclass(kind, _HOLDERS)}  # objects may lie about theirs
        for thing in things:
            if type(thing) in kinds:
                found |= _memory(thing)
        # the collector knows neither arrays nor dicts and tuples of nothing but such: they are found by who holds them
        held = gc.get_referents(*(thing for thing in things if type(thing) in (dict, tuple) or gc.is_tracked(thing)))
        things = [thing for thing in held if not gc.is_tracked(thing) and type(thing) in _UNTRACKED]
    return found


_BUFFERS = (bytes, bytearray, memoryview, array.array, mmap.mmap, ctypes.Array)
_HOLDERS = (torch.Tensor, np.ndarray, io.BytesIO, *_BUFFERS)
_UNTRACKED = (dict, tuple, np.ndarray, bytes, bytearray, array.array, mmap.mmap)


def _memory(thing: Any) -> dict[int, int]:
    """The memory behind a tensor, array or buffer, as a whole: a view keeps all of what it was cut from."""
    least = LEAST_BYTES
    while issubclass(type(thing), np.ndarray) and issubclass(type(thing.base), _HOLDERS):
        thing, least = thing.base, 0
    if issubclass(type(thing), torch.Tensor):
        with warnings.catch_warnings(action="ignore"):  # of a compiler's stand-ins, which have no memory
            return _storage(thing)
    if issubclass(type(thing), np.ndarray):
        return {thing.__array_interface__["data"][0]: thing.nbytes}
    try:
        numbers = np.frombuffer(thing.getbuffer() if issubclass(type(thing), io.BytesIO) else thing, np.uint8)
    except (ValueError, BufferError, TypeError):  # empty, closed, or not in one piece
        return {}
    return {numbers.__array_interface__["data"][0]: numbers.nbytes} if numbers.nbytes >= least else {}


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
