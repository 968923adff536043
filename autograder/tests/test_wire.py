"""Values keep their kind across the wire, and what is not data arrives as the name of its type."""

from __future__ import annotations

import math
import socket
import struct
import time

import numpy as np
import pytest
import torch

from autograder.exercise import Foreign
from autograder.judge import wire

PLAIN = [None, True, 0, -(2**80), 1.5, math.inf, "é", "\ud800", [1, (2, [3])], {"a": 1, 2: None, (1, 2): b"x"}, b"\0"]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back_as_they_were(value):
    back = wire.decode(wire.encode(value))
    assert back == value and type(back) is type(value)


def test_nan_stays_nan():
    assert math.isnan(wire.decode(wire.encode(math.nan)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool])
def test_tensors_keep_dtype_shape_and_values(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype).T
    back = wire.decode(wire.encode(tensor))
    assert back.dtype == dtype and torch.equal(back, tensor)
    assert wire.decode(wire.encode(torch.empty(0, 3, dtype=dtype))).shape == (0, 3)


def test_a_tensor_with_a_gradient_or_of_no_dimensions_is_still_data():
    assert wire.decode(wire.encode(torch.tensor(2.0, requires_grad=True))).item() == 2.0


def test_numpy_values_are_recognised():
    for value in (np.float64(1.5), np.bool_(True), np.int64(3)):
        back = wire.decode(wire.encode(value))
        assert back == value and type(back) is type(value)
    assert np.array_equal(wire.decode(wire.encode(np.eye(2))), np.eye(2))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ((x for x in ()), "generator"),
        ({1}, "set"),
        (torch.zeros(2, device="meta"), "float32 tensor on meta"),
        (torch.zeros(2, dtype=torch.complex64), "complex64 tensor on cpu"),
        (10**400, "whole number of 1329 bits"),
        (np.array([object()]), "numpy ndarray of object"),
    ],
)
def test_anything_else_arrives_as_the_name_of_its_type(value, name):
    assert wire.decode(wire.encode(value), Foreign) == Foreign(name)


def test_a_structure_without_end_is_not_followed():
    endless: list = []
    endless.append(endless)
    assert "nested too deeply" in repr(wire.decode(wire.encode(endless), Foreign))


@pytest.mark.parametrize("junk", [b"", b"junk", struct.pack("<Q", 2) + b"{}", wire.encode(1)[:-1], b"\xff" * 64])
def test_junk_is_refused_in_one_way(junk):
    with pytest.raises(wire.WireError):
        wire.decode(junk)


def test_a_late_a_closed_and_an_oversized_message_are_told_apart():
    ours, theirs = socket.socketpair()
    with pytest.raises(wire.Late):
        wire.receive(ours, time.monotonic() + 0.01)
    theirs.sendall(struct.pack(">Q", wire.MAX_MESSAGE_BYTES + 1))
    with pytest.raises(wire.WireError, match="too large"):
        wire.receive(ours)
    theirs.close()
    with pytest.raises(wire.Closed):
        wire.receive(ours)
