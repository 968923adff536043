"""Length-prefixed safetensors messages over a socket: plain values in the metadata, tensors as tensors.

Never pickle, never `torch.load`: decoding runs no code of the sender. This file imports nothing of ours, because its
source is also what a bench is started with.

Values keep their kind. JSON has null, booleans, numbers, text and lists; everything else is a one-key object
{"tuple": [...]}, {"dict": [[key, value], ...]}, {"bytes": base64}, {"tensor": name}, {"array": name},
{"scalar": [dtype, value]}, or {"foreign": type name} for what is not data.
"""

from __future__ import annotations

import base64
import json
import select
import socket
import struct
import time
from collections import deque

import numpy as np
import safetensors
import safetensors.numpy

MAX_MESSAGE_BYTES = 1 << 28
MAX_VALUES = 1_000_000
MAX_DEPTH = 64
MAX_NAME = 100
MAX_INT_BITS = 1024
MAX_KEY_BITS = 64  # of a whole number in a dict: larger ones can be made to collide
MAX_TUPLE_KEYS = 1000  # entries of a dict with tuples for keys, which can be, too
# safetensors' name of a dtype -> torch's and numpy's
DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


class WireError(Exception):
    """The other side sent something that is not a message, or too much of it."""


class Closed(WireError):
    """The other side is gone."""


class Late(WireError):
    """No complete message before the deadline."""


class _Packer:
    """Turns one value into a JSON tree and tables of tensors and arrays."""

    def __init__(self) -> None:
        self.tensors: dict = {}
        self.arrays: dict = {}
        self.count = 0

    def pack(self, value, depth: int = 0):
        """The tree of one value; a value that fails while it is looked at is not data."""
        try:
            return self._pack(value, depth)
        except Exception:
            return {"foreign": type(value).__name__}

    def _pack(self, value, depth: int):
        self.count += 1
        if depth > MAX_DEPTH:
            return {"foreign": "structure nested too deeply"}
        if self.count > MAX_VALUES:
            return {"foreign": "structure with too many values"}
        if value is None or isinstance(value, bool | str):
            return str(value) if isinstance(value, str) else value
        if isinstance(value, np.ndarray | np.generic):
            return self._numpy(value)
        if isinstance(value, int):
            if value.bit_length() > MAX_INT_BITS:
                return {"foreign": f"whole number of {value.bit_length()} bits"}
            return int(value)
        if isinstance(value, float):
            return float(value)
        if isinstance(value, list | deque):
            return [self.pack(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.pack(item, depth + 1) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.pack(k, depth + 1), self.pack(v, depth + 1)] for k, v in value.items()]}
        if isinstance(value, bytes | bytearray):
            return {"bytes": base64.b64encode(bytes(value)).decode()}
        if hasattr(value, "detach") and hasattr(value, "data_ptr"):
            return self._tensor(value)
        return {"foreign": type(value).__name__}

    def _numpy(self, value):
        dtype = value.dtype.name
        if dtype not in DTYPES.values():
            return {"foreign": f"numpy {type(value).__name__} of {dtype}"}
        if isinstance(value, np.generic):
            return {"scalar": [dtype, value.item()]}
        name = f"a{len(self.arrays)}"
        self.arrays[name] = np.array(value, order="C")
        return {"array": name}

    def _tensor(self, value):
        dtype = str(value.dtype).removeprefix("torch.")
        try:
            plain = value.detach().to("cpu").contiguous().clone()
            if dtype not in DTYPES.values() or plain.is_sparse or type(plain).__name__ != "Tensor":
                raise TypeError(dtype)
        except Exception:
            return {"foreign": f"{dtype} tensor on {value.device}"}
        name = f"t{len(self.tensors)}"
        self.tensors[name] = plain
        return {"tensor": name}

    def bytes(self, metadata: dict[str, str]) -> bytes:
        if not self.tensors:
            return safetensors.numpy.save(self.arrays, metadata)
        import torch
        from safetensors.torch import save

        arrays = {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        return save(self.tensors | arrays, metadata)


def encode(value) -> bytes:
    """The value as the bytes of one safetensors file."""
    packer = _Packer()
    tree = packer.pack(value)
    # json.dumps escapes everything beyond ASCII, so text that is not Unicode (a lone surrogate) survives.
    return packer.bytes({"tree": json.dumps(tree)})


def decode(data: bytes, foreign=lambda name: {"foreign": name}):
    """The value that `encode` was given; `foreign(type_name)` stands for what was not data.

    Raises WireError when the bytes are not a message.
    """
    try:
        (size,) = struct.unpack_from("<Q", data)
        header = data[8 : 8 + size]
        if header.count(b",") + header.count(b"[") > 4 * MAX_VALUES:  # before any of it becomes an object
            raise WireError("a message with too many values")
        tensors = {name: tensor for name, tensor in safetensors.deserialize(data)}
        tree = json.loads(json.loads(header)["__metadata__"]["tree"])
        return _Unpacker(tensors, foreign).unpack(tree)
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"not a message: {error}") from None


class _Unpacker:
    """Turns a JSON tree back into a value. What a sender could blow up is counted and used up."""

    def __init__(self, tensors: dict, foreign) -> None:
        self.tensors = tensors
        self.foreign = foreign
        self.count = 0

    def unpack(self, tree):
        self.count += 1
        if self.count > 2 * MAX_VALUES:  # a sender of ours stops at half of this
            raise WireError("a message with too many values")
        if isinstance(tree, list):
            return [self.unpack(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        ((tag, payload),) = tree.items()
        match tag:
            case "tuple":
                return tuple(self.unpack(item) for item in payload)
            case "dict":
                return self._dict([(self.unpack(key), self.unpack(value)) for key, value in payload])
            case "bytes":
                return base64.b64decode(payload)
            case "tensor":
                return _torch_tensor(self.tensors.pop(payload))
            case "array":
                return _numpy_array(self.tensors.pop(payload))
            case "scalar":
                dtype, value = payload
                if dtype not in DTYPES.values():
                    raise WireError(f"unknown dtype {dtype!r}")
                return np.dtype(dtype).type(value)
            case "foreign":
                return self.foreign(str(payload)[:MAX_NAME])
        raise WireError(f"unknown tag {tag!r}")

    @staticmethod
    def _dict(items: list[tuple]) -> dict:
        """A dict whose keys its sender cannot have chosen to make it slow (text and bytes are hashed with a secret)."""
        for key, _ in items:
            if isinstance(key, int) and key.bit_length() > MAX_KEY_BITS:
                raise WireError(f"a dict with a key of {key.bit_length()} bits")
            if isinstance(key, tuple) and len(items) > MAX_TUPLE_KEYS:
                raise WireError("a large dict with tuples for keys")
        return dict(items)


def _torch_tensor(tensor: dict):
    import torch

    dtype = getattr(torch, DTYPES[tensor["dtype"]])
    if not tensor["data"]:
        return torch.empty(tensor["shape"], dtype=dtype)
    return torch.frombuffer(bytearray(tensor["data"]), dtype=dtype).reshape(tensor["shape"])


def _numpy_array(tensor: dict):
    return np.frombuffer(bytearray(tensor["data"]), dtype=DTYPES[tensor["dtype"]]).reshape(tensor["shape"])


def send(channel: socket.socket, value, deadline: float | None = None) -> None:
    """Send one message. Raises Closed, or Late past `deadline` (seconds of `time.monotonic`)."""
    data = encode(value)
    view = memoryview(struct.pack(">Q", len(data)) + data)
    while view:
        _wait(channel, deadline, write=True)
        try:
            sent = channel.send(view, socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        except OSError as error:
            raise Closed(str(error)) from None
        view = view[sent:]


def receive(channel: socket.socket, deadline: float | None = None):
    """Wait for one message. Raises Closed, Late, or WireError for an oversized or broken one."""
    return decode(receive_bytes(channel, deadline))


def receive_bytes(channel: socket.socket, deadline: float | None = None) -> bytes:
    """The same message before it is decoded."""
    (size,) = struct.unpack(">Q", _read(channel, 8, deadline))
    if size > MAX_MESSAGE_BYTES:
        raise WireError(f"a message of {size} bytes is too large")
    return bytes(_read(channel, size, deadline))


def _read(channel: socket.socket, size: int, deadline: float | None) -> bytearray:
    data = bytearray()
    while len(data) < size:
        _wait(channel, deadline, write=False)
        try:
            part = channel.recv(min(size - len(data), 1 << 20), socket.MSG_DONTWAIT)
        except BlockingIOError:
            continue
        except OSError as error:
            raise Closed(str(error)) from None
        if not part:
            raise Closed("the other side closed the connection")
        data += part
    return data


def _wait(channel: socket.socket, deadline: float | None, *, write: bool) -> None:
    poll = select.poll()
    poll.register(channel, select.POLLOUT if write else select.POLLIN)
    milliseconds = None if deadline is None else (deadline - time.monotonic()) * 1000
    # A sender that never pauses is late all the same.
    if (milliseconds is not None and milliseconds <= 0) or not poll.poll(milliseconds):
        raise Late("no answer in time")
