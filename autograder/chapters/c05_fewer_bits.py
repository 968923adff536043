"""Chapter 05: storing weights in fewer bits, and what that costs in quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import numpy as np

from autograder.exercise import (
    Challenge,
    Chapter,
    Exercise,
    MarkScheme,
    Raised,
    Rung,
    Sample,
    SchemePoint,
    close,
    describe,
    number,
)

CHANGED = "what came in has changed, and it is the caller's: which of your operations writes into it?"
OWN_CHECK = "If you call functions of yours in it, do they pass their own checks?"


def _array(value: Any) -> np.ndarray | None:
    """A tensor or array as numpy (bfloat16 as float32), or None for anything else."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return None
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.float() if "bfloat16" in str(value.dtype) else value).numpy()
    return np.asarray(value)


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", "")).removeprefix("torch.")


def _recognised(given: np.ndarray, mistakes: Mapping[str, np.ndarray], **tolerance) -> str:
    """The first mistake that gives these very values, as a sentence to append; else ''."""
    for why, values in mistakes.items():
        if given.shape == values.shape and np.allclose(given, values, equal_nan=True, **tolerance):
            return f" {why}"
    return ""


class PackInt4(Exercise):
    """Two unsigned 4-bit numbers per byte, the even column in the low half."""

    PACK = "pack_int4 puts the even column low and its neighbour high"
    UNPACK = "unpack_int4 gives back what the course packed"
    ODD = "an odd width, packed and unpacked"

    name = "pack_int4"
    needs = ("pack_int4", "unpack_int4")
    rungs: Mapping[str, float] = {PACK: 1, UNPACK: 1, ODD: 1}
    hints = (
        "Write 3 and 12 in binary, four digits each. Which byte do you get with the 3 in its low half, and how much "
        "is the 12 worth where it now stands?",
        "Which columns are the even ones, as a slice? On the way back, what is left of a byte after `& 15` and what "
        "after `>> 4`, and in which order must the two stand beside each other? Who has no neighbour?",
    )

    def challenges(self, rng):
        for columns, rungs in ((2 * int(rng.integers(6, 13)), (self.PACK, self.UNPACK)), (None, (self.ODD, self.ODD))):
            columns = columns or 2 * int(rng.integers(6, 13)) + 1
            for pack, rung in zip((True, False), rungs, strict=True):
                q = _nibbles(rng, rows=int(rng.integers(4, 9)), columns=columns)
                data = {"q": q} if pack else {"packed": _packed(q), "columns": columns}
                yield Challenge(data, decides=(rung,))

    @staticmethod
    def run(learner, challenge):
        import torch

        from autograder import lab

        came = torch.as_tensor(challenge["q"] if "q" in challenge else challenge["packed"]).to(lab.device())
        before = came.clone()
        given = learner.pack_int4(came) if "q" in challenge else learner.unpack_int4(came, challenge["columns"])
        return {"given": given, "kept": torch.equal(came, before)}

    def verify(self, challenge, answer):
        (rung,) = challenge.decides
        why = (
            self._why_packed(challenge["q"], answer["given"])
            if "q" in challenge.data
            else self._why_unpacked(challenge["packed"], challenge["columns"], answer["given"])
        )
        why = why or ("" if answer["kept"] or rung == self.ODD else CHANGED)
        yield Rung(rung, not why, why)

    @staticmethod
    def _why_packed(q: np.ndarray, answer) -> str:
        expected, given = _packed(q), _array(answer)
        told = f"q is uint8 {list(q.shape)}, so packed is uint8 {list(expected.shape)}"
        if given is None or given.shape != expected.shape:
            return f"{told}; you returned {describe(answer)}." + _why_packed_shape(q, getattr(given, "shape", ()))
        if _dtype(answer) != "uint8":
            return f"{told}; yours is {_dtype(answer)}. A byte holds two numbers: how many bytes hold yours?"
        if np.array_equal(given, expected):
            return ""
        row, column = np.argwhere(given != expected)[0]
        pair = q[row, 2 * column : 2 * column + 2].tolist()
        why = (
            f"columns {2 * column} and {2 * column + 1} of a row are {pair[0]} and {pair[1]}: the byte is "
            if len(pair) == 2
            else f"the last column of an odd row is {pair[0]}: the byte, with nothing in its high half, is "
        ) + f"{expected[row, column]}, you gave {given[row, column]}."
        return why + _recognised(given, _mistaken_packings(q))

    @staticmethod
    def _why_unpacked(packed: np.ndarray, columns: int, answer) -> str:
        expected, given = _unpacked(packed, columns), _array(answer)
        told = f"packed is uint8 {list(packed.shape)} with columns={columns}, so q is uint8 {list(expected.shape)}"
        if given is None or given.shape != expected.shape:
            why = f"{told}; you returned {describe(answer)}."
            if given is not None and given.shape == (packed.shape[0], columns + 1):
                why += " The last high half is nobody's: how does the caller know, and how do you?"
            return why
        if not np.issubdtype(given.dtype, np.integer):
            return f"{told}; yours is {_dtype(answer)}."
        if np.array_equal(given.astype(np.int64), expected):
            if _dtype(answer) == "uint8":
                return ""
            return f"{told}; the numbers are right, and yours are {_dtype(answer)}."
        row, column = np.argwhere(given.astype(np.int64) != expected)[0]
        why = (
            f"byte {packed[row, column // 2]} is {_unpacked(packed, columns)[row, 2 * (column // 2)]} low and "
            f"{packed[row, column // 2] >> 4} high; column {column} should be {expected[row, column]}, you gave "
            f"{given[row, column]}."
        )
        return why + _recognised(given.astype(np.int64) & 255, _mistaken_unpackings(packed, columns))


SWAPPED = "The halves are swapped: the even column, the first of the two, lies low."
HALVES = "Neighbours share a byte: column 0 with 1, 2 with 3. Yours pairs the first half of the row with the second."
UNSIGNED = "Numbers are unsigned, 0 to 15, and are stored as they are: yours are moved by 8."


def _nibbles(rng, *, rows: int, columns: int) -> np.ndarray:
    """Random q of which no two packings are the same: both halves have a sign bit set somewhere in the first row."""
    q = rng.integers(0, 16, (rows, columns), dtype=np.uint8)
    q[0, :4] = rng.permutation([3, 9, 12, 6])
    return q


def _packed(q: np.ndarray) -> np.ndarray:
    q = np.pad(q, ((0, 0), (0, q.shape[1] % 2)))
    return q[:, 0::2] | q[:, 1::2] << 4


def _unpacked(packed: np.ndarray, columns: int) -> np.ndarray:
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)[:, :columns]


def _why_packed_shape(q: np.ndarray, shape: tuple) -> str:
    """What a packed tensor of the wrong shape may have come from, as a sentence to append."""
    rows, columns = q.shape
    if shape == (rows, columns):
        return " That is one number per byte still; two go into one, so there are half as many columns."
    if shape == ((rows + 1) // 2, columns):
        return " Two rows share a byte there; neighbours of one row should."
    if columns % 2 and shape == (rows, columns // 2):
        return " The last column of an odd row has no neighbour, and is lost."
    return ""


def _mistaken_packings(q: np.ndarray) -> dict[str, np.ndarray]:
    q = np.pad(q, ((0, 0), (0, q.shape[1] % 2)))
    half, low, high = q.shape[1] // 2, q[:, 0::2], q[:, 1::2]
    return {
        SWAPPED: low << 4 | high,
        HALVES: q[:, :half] | q[:, half:] << 4,
        UNSIGNED: (low ^ 8) | (high ^ 8) << 4,
        "`+` binds before `<<`: the sum was shifted.": (low + high) << 4,
        "The odd column was not moved: both lie in the low half, one over the other.": low | high,
        "The odd column is missing.": low,
    }


def _mistaken_unpackings(packed: np.ndarray, columns: int) -> dict[str, np.ndarray]:
    low, high = (packed & 15).astype(np.int64), (packed >> 4).astype(np.int64)

    def beside(first, second):
        return np.stack([first, second], axis=-1).reshape(len(packed), -1)[:, :columns] & 255

    def signed(nibble):
        return (nibble ^ 8) - 8

    sign = "The sign was copied: a signed type shifts its highest bit in from the left. What type has no sign?"
    return {
        SWAPPED: beside(high, low),
        HALVES: np.concatenate([low, high], axis=1)[:, :columns],
        sign: beside(low, signed(high)),
        f"{sign} ": beside(signed(low), signed(high)),
        UNSIGNED: beside(low ^ 8, high ^ 8),
        f"{UNSIGNED} ": beside(low - 8, high - 8),
        "The even columns are the whole byte: what is left of it when the high half is masked?": beside(packed, high),
        "The odd columns are sixteen times too large: they are masked and still stand high.": beside(low, packed & 240),
    }


class QuantizeGroups(Exercise):
    """Groups of neighbouring weights with a scale and a minimum each; value = q x scale + minimum."""

    ASYMMETRIC = "asymmetric: each group's minimum and scale, and the nearest level"
    SYMMETRIC = "symmetric: levels on both sides of zero, stored unsigned"
    CONSTANT = "a constant group stays exact"
    DIVISIBLE = "a row that does not divide into groups is a ValueError"
    BACK = "dequantize_groups gives q x scale + minimum of each weight's own group"

    name = "quantize_groups"
    needs = ("quantize_groups", "dequantize_groups")
    rungs: Mapping[str, float] = {ASYMMETRIC: 1, SYMMETRIC: 1, CONSTANT: 1, DIVISIBLE: 1, BACK: 1}
    hints = (
        "A group holds 1.0, 1.3 and 2.5, and you have two bits: which values can you store if the smallest and the "
        "largest must be among them, how far apart are they, and to which of them does 1.3 go?",
        "In symmetric mode zero must be one of the levels, with as many above as below: how many on each side for "
        "4 bits, and what must be added so that none is negative? And if all weights of a group are equal, what is "
        "its scale, and what do you divide by?",
    )

    def challenges(self, rng):
        for symmetric, rung in ((False, self.ASYMMETRIC), (True, self.SYMMETRIC)):
            for bits in (4, int(rng.choice([2, 3])), int(rng.choice([6, 7, 8]))):
                challenge = self._challenge(rng, bits, symmetric, rung)
                challenge.decides += (self.DIVISIBLE,)  # whoever raises here as well has not looked whether it divides
                yield challenge
        for symmetric in (False, True):
            yield self._constant(rng, symmetric)
        yield self._indivisible(rng)
        yield self._back(rng)

    @staticmethod
    def _weights(rng, group_size: int, groups: int) -> np.ndarray:
        """[O, E]: groups of very different ranges, off centre, so that a foreign scale or minimum is seen."""
        rows = int(rng.integers(5, 9))
        values = rng.uniform(-1, 1, (rows, groups, group_size)) * rng.uniform(0.05, 1.5, (rows, groups, 1))
        values += rng.uniform(0.1, 0.4, (rows, groups, 1)) * rng.choice([-1, 1], (rows, groups, 1))
        return values.reshape(rows, -1).astype(np.float32)

    @classmethod
    def _challenge(cls, rng, bits: int, symmetric: bool, rung: str) -> Challenge:
        group_size, groups = int(rng.choice([16, 24, 32])), int(rng.integers(3, 6))
        options = {"bits": bits, "group_size": group_size, "symmetric": symmetric}
        return Challenge({"weight": cls._weights(rng, group_size, groups), "options": options}, decides=(rung,))

    @classmethod
    def _constant(cls, rng, symmetric: bool) -> Challenge:
        """Some groups all equal (symmetric: all zero), among others."""
        challenge = cls._challenge(rng, int(rng.integers(3, 6)), symmetric, cls.CONSTANT)
        groups = challenge["weight"].reshape(len(challenge["weight"]), -1, challenge["options"]["group_size"])
        constant = np.zeros(groups.shape[:2], dtype=bool)
        constant[0, 1] = constant[1, 0] = constant[-1, -1] = True
        groups[constant] = 0 if symmetric else rng.uniform(0.2, 0.9, (3, 1)) * rng.choice([-1, 1], (3, 1))
        return Challenge(challenge.data | {"constant": constant}, decides=(cls.CONSTANT,))

    @classmethod
    def _indivisible(cls, rng) -> Challenge:
        group_size = int(rng.choice([8, 16]))
        weight = rng.standard_normal((group_size, 2 * group_size + group_size // 2), dtype=np.float32)
        options = {"bits": 4, "group_size": group_size, "symmetric": False}
        return Challenge({"weight": weight, "options": options}, decides=(cls.DIVISIBLE,), may_raise=True)

    @classmethod
    def _back(cls, rng) -> Challenge:
        group_size, groups, rows = int(rng.choice([8, 16])), int(rng.integers(3, 6)), int(rng.integers(4, 8))
        data = {
            "q": rng.integers(0, 16, (rows, groups * group_size), dtype=np.uint8),
            "scale": rng.uniform(0.01, 0.2, (rows, groups)).astype(np.float32),
            "minimum": rng.uniform(-1, 1, (rows, groups)).astype(np.float32),
            "group_size": group_size,
        }
        return Challenge(data, decides=(cls.BACK,))

    @staticmethod
    def run(learner, challenge):
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        from autograder import lab

        if "q" in challenge:
            parts = [torch.as_tensor(challenge[name]).to(lab.device()) for name in ("q", "scale", "minimum")]
            before = [part.clone() for part in parts]
            given = learner.dequantize_groups(*parts, group_size=challenge["group_size"])
            return {"given": given, "kept": all(map(torch.equal, parts, before))}

        became_integers = []  # what a NaN becomes as an integer differs from processor to processor

        class Watching(TorchDispatchMode):
            def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
                result = operation(*args, **(kwargs or {}))
                if operation.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.copy_):
                    source = args[1] if operation.overloadpacket is torch.ops.aten.copy_ else args[0]
                    kept = result.is_floating_point() or result.dtype == torch.bool
                    if source.is_floating_point() and not kept and bool(source.isnan().any()):
                        became_integers.append(True)
                return result

        weight = torch.as_tensor(challenge["weight"]).to(lab.device())
        before = weight.clone()
        with Watching():
            given = learner.quantize_groups(weight, **challenge["options"])
        return {"given": given, "nan": bool(became_integers), "kept": torch.equal(weight, before)}

    def verify(self, challenge, answer):
        rung, *_ = challenge.decides
        if rung == self.BACK:
            why = _why_back(challenge, answer["given"]) or ("" if answer["kept"] else CHANGED)
        elif rung == self.DIVISIBLE:
            why = self._why_divided(challenge, answer)
        elif rung == self.CONSTANT:
            why = _why_not_constant(challenge, answer)
        else:
            why = _why_not_quantized(challenge, answer["given"]) or ("" if answer["kept"] else CHANGED)
        yield Rung(rung, not why, why)

    @staticmethod
    def _why_divided(challenge, answer) -> str:
        if isinstance(answer, Raised) and answer.kind == "ValueError":
            return ""
        told = (
            f"rows of {challenge['weight'].shape[1]} with group_size={challenge['options']['group_size']} do not "
            "divide, and a ValueError should say so; "
        )
        came = f"{answer.kind} came" if isinstance(answer, Raised) else f"{describe(answer['given'])} came back"
        return told + came + ". Who notices first?"


def _grouped(values: np.ndarray, group_size: int) -> np.ndarray:
    return values.astype(np.float64).reshape(len(values), -1, group_size)  # [O, G, group]


def _told(challenge) -> str:
    options = challenge["options"]
    return (
        f"bits={options['bits']}, group_size={options['group_size']}, symmetric={options['symmetric']}, weight "
        f"{list(challenge['weight'].shape)}: "
    )


def _why_not_three(challenge, given, *, strict: bool = True) -> str:
    """What is wrong with the form of (q, scale, minimum)."""
    if not isinstance(given, tuple | list) or len(given) != 3:
        return f"return the tuple (q, scale, minimum); you returned {describe(given)}."
    rows, columns = challenge["weight"].shape
    groups = columns // challenge["options"]["group_size"]
    for name, value, shape, dtype in zip(
        ("q", "scale", "minimum"),
        given,
        ((rows, columns), (rows, groups), (rows, groups)),
        ("uint8", "float32", "float32"),
        strict=True,
    ):
        array = _array(value)
        if array is None or array.shape != shape:
            why = f"{name} is {dtype} {list(shape)}; you returned {describe(value)}."
            if array is not None and array.size == rows and name != "q":
                return f"{why} That is one for a whole row: each of its {groups} groups has its own."
            if array is not None and array.size == groups and name != "q":
                return f"{why} That is one for all rows: each row's groups have their own."
            return why
        if strict and _dtype(value) != dtype:
            return f"{name} is {dtype} {list(shape)}; yours is {_dtype(value)}."
    return ""


def _why_not_quantized(challenge, given) -> str:
    """What is wrong with q, scale and minimum of ordinary groups."""
    if why := _why_not_three(challenge, given):
        return _told(challenge) + why
    q, scale, minimum = (_array(part).astype(np.float64) for part in given)
    options = challenge["options"]
    expected_scale, expected_minimum = _scales(challenge["weight"], **options)
    if not np.allclose(scale, expected_scale, rtol=1e-4, atol=0):
        row, group = np.argwhere(~np.isclose(scale, expected_scale, rtol=1e-4, atol=0))[0]
        why = f"the scale of a group is {expected_scale[row, group]:.5g}, you gave {scale[row, group]:.5g}."
        return _told(challenge) + why + _recognised(scale, _mistaken_scales(challenge), rtol=1e-4, atol=0)
    near = {"rtol": 1e-4, "atol": 1e-5}
    if not np.allclose(minimum, expected_minimum, **near):
        row, group = np.argwhere(~np.isclose(minimum, expected_minimum, **near))[0]
        why = f"the minimum of a group is {expected_minimum[row, group]:.5g}, you gave {minimum[row, group]:.5g}."
        return _told(challenge) + why + _recognised(minimum, _mistaken_minimums(challenge), rtol=1e-3, atol=1e-3)
    return _why_levels(challenge, q, scale, minimum)


def _why_levels(challenge, q, scale, minimum) -> str:
    """What is wrong with q, given that scales and minimums are right."""
    options, group_size = challenge["options"], challenge["options"]["group_size"]
    weight, levels = _grouped(challenge["weight"], group_size), _grouped(q, group_size)
    exact = (weight - minimum[..., None]) / scale[..., None]  # in levels
    off = np.abs(levels - exact)
    if (off <= 0.5 + 1e-3).all():
        return ""
    where = tuple(np.argwhere(off > 0.5 + 1e-3)[0])
    why = (
        f"{_told(challenge)}a weight of {weight[where]:.4g} lies {exact[where]:.2f} levels above its group's minimum "
        f"and got q = {levels[where]:.0f}: off by more than half a level."
    )
    unsure = (np.abs(exact % 1 - 0.5) < 1e-3) | (np.abs(exact - np.rint(exact)) < 1e-3)
    nearest, most = np.rint(exact), 2 ** (options["bits"] - 1) - 1
    mistakes = {
        "It was cut off: a conversion to an integer does not round.": np.floor(exact + 1e-4),
        f"A clamp at {most} is that of signed numbers: which q does the largest weight need?": nearest.clip(0, most),
        "A clamp at 15 is right for 4 bits alone.": nearest.clip(0, 15),
        f"q below zero wrap round in an unsigned byte; symmetric levels are stored with {most} added.": (
            (nearest - most) % 256
        ),
        "It was rounded up.": np.ceil(exact - 1e-4),
    }
    for mistake, values in mistakes.items():
        if (np.abs(levels - values) <= unsure).all():
            return f"{why} {mistake}"
    return why


def _scales(weight: np.ndarray, *, bits: int, group_size: int, symmetric: bool) -> tuple[np.ndarray, np.ndarray]:
    """(scale, minimum) [O, G] in float64, as the chapter defines them."""
    groups = _grouped(weight, group_size)
    if symmetric:
        most = 2 ** (bits - 1) - 1
        scale = np.abs(groups).max(-1) / most
        return scale, -scale * most
    return np.ptp(groups, axis=-1) / (2**bits - 1), groups.min(-1)


def _mistaken_scales(challenge) -> dict[str, np.ndarray]:
    options, weight = challenge["options"], challenge["weight"]
    bits, group_size = options["bits"], options["group_size"]
    groups, shape = _grouped(weight, group_size), (len(weight), weight.shape[1] // group_size)
    row = _scales(weight, **options | {"group_size": weight.shape[1]})[0]
    strided = weight.reshape(len(weight), group_size, -1).swapaxes(1, 2).reshape(weight.shape)
    spread, largest, most = np.ptp(groups, axis=-1), np.abs(groups).max(-1), 2 ** (bits - 1) - 1
    count = f"{bits} bits give {2**bits} levels, and between them there is one fewer step."
    mistakes = {
        "That is the scale of the whole row, for each of its groups.": np.broadcast_to(row, shape),
        "A group is a run of neighbours; yours takes every G-th weight of the row.": _scales(strided, **options)[0],
    }
    if options["symmetric"]:
        return mistakes | {
            "That is the asymmetric scale.": spread / (2**bits - 1),
            "Half of max - min leaves no room for the larger side: the weight farthest from zero decides.": (
                spread / (2 * most)
            ),
            f"With {2 ** (bits - 1)} steps on a side there is no q for the last one above zero: {most} on each side, "
            "one fewer.": largest / 2 ** (bits - 1),
            "That spreads both sides over 2^bits - 1 steps, so zero is no level.": 2 * largest / (2**bits - 1),
        }
    return mistakes | {
        count: spread / 2**bits,
        "That is the symmetric scale.": largest / most,
    }


def _mistaken_minimums(challenge) -> dict[str, np.ndarray]:
    scale, minimum = _scales(challenge["weight"], **challenge["options"])
    most = 2 ** (challenge["options"]["bits"] - 1) - 1
    zero = "That is a zero point, counted in levels; the minimum is a weight: the value that q = 0 stands for."
    return {
        f"That is one level lower: with {most} levels on each side, q = 0 is {most} scales below zero.": (
            -scale * (most + 1)
        ),
        zero: np.rint(-minimum / scale),
        f"{zero} ": -minimum / scale,
        f"{zero}  ": np.rint(minimum / scale),
        "The sign is the other one: value = q x scale + minimum.": -minimum,
        "Symmetric groups have a minimum, too: levels are stored unsigned.": np.zeros_like(minimum),
    }


def _why_not_constant(challenge, answer) -> str:
    """What is wrong with groups of equal weights; others are looked at elsewhere."""
    given, constant, group_size = answer["given"], challenge["constant"], challenge["options"]["group_size"]
    if why := _why_not_three(challenge, given, strict=False):
        return _told(challenge) + why
    q, scale, minimum = (_array(part) for part in given)
    told = f"{_told(challenge)}a group of {group_size} equal weights: "
    if not (np.isfinite(scale[constant]).all() and np.isfinite(minimum[constant]).all()):
        return f"{told}its scale or minimum is not finite. What was divided by zero?"
    values = q.astype(np.float32).reshape(*scale.shape, -1) * scale[..., None].astype(np.float32)
    values = (values + minimum[..., None].astype(np.float32))[constant]
    expected = challenge["weight"].reshape(*constant.shape, -1)[constant]
    if not np.array_equal(values, expected):
        where = tuple(np.argwhere(values != expected)[0])
        return f"{told}they are {expected[where]:.6g}, and q x scale + minimum gives {values[where]:.6g}."
    if answer["nan"]:
        return (
            f"{told}its scale is 0, and 0 / 0 is no number. You made an integer of it, and which one comes out "
            "depends on the processor. What should q be there?"
        )
    return ""


def _why_back(challenge, answer) -> str:
    """What is wrong with the values of dequantize_groups."""
    group_size, given = challenge["group_size"], _array(answer)
    q = _grouped(challenge["q"], group_size)
    scale, minimum = (challenge[name].astype(np.float64) for name in ("scale", "minimum"))
    s, m = scale[..., None], minimum[..., None]
    shape, rows = challenge["q"].shape, len(q)
    told = f"q {list(shape)}, scale and minimum {list(scale.shape)}, group_size={group_size}: "
    if given is None or given.shape != shape or not np.issubdtype(given.dtype, np.floating):
        why = f"{told}the weights are float32 {list(shape)}; you returned {describe(answer)}."
        if given is not None and given.shape == q.shape:
            why += " The groups of a row belong beside each other again."
        return why
    near = {"rtol": 1e-4, "atol": 1e-5}
    expected = (q * s + m).reshape(shape)
    if np.allclose(given, expected, **near):
        if _dtype(answer) in ("float32", "float64"):
            return ""
        return f"{told}the weights are float32, yours are {_dtype(answer)}."
    row, column = np.argwhere(~np.isclose(given, expected, **near))[0]
    tiled = _grouped(challenge["q"], group_size).reshape(rows, group_size, -1)
    mistakes = {
        "The scales are tiled, 0 1 0 1 for weights that need 0 0 1 1: repeat() and repeat_interleave() differ in "
        "this.": tiled * scale[:, None] + minimum[:, None],
        "The minimum is a weight, not a number of levels: it is added to the product, not multiplied.": (q + m) * s,
        "The minimum is a weight, not a number of levels to take off: q x scale + minimum.": (q - m) * s,
        "The minimum is added: it is what q = 0 stands for.": q * s - m,
        "The minimum is missing.": q * s + 0 * m,
        "Every group got the first one's scale and minimum.": q * s[:, :1] + m[:, :1],
    }
    why = f"{told}column {column} has q = {challenge['q'][row, column]} and lies in group {column // group_size}, so "
    why += f"it is {expected[row, column]:.5g}; you gave {given[row, column]:.5g}."
    return why + _recognised(given, {k: v.reshape(shape) for k, v in mistakes.items()}, **near)


class BitsPerWeight(Exercise):
    """Effective bits: those of q, and a group's scale and minimum shared among its weights."""

    SCALE = "a group's weights share the bits of its scale"
    MINIMUM = "and those of its minimum, where there is one"

    name = "bits_per_weight"
    rungs: Mapping[str, float] = {SCALE: 1, MINIMUM: 1}
    hints = (
        "Write down everything that is stored for one group. How many weights is it for?",
        "4 bits, groups of 32, a scale of 16 bits and no minimum: how many bits has a whole group, and how many does "
        "each weight carry?",
    )

    def challenges(self, rng):
        for group_size, scale_bits, minimum_bits in (
            (int(rng.choice([20, 24])), 32, 0),  # a scale that costs a bit and a third
            (int(rng.choice([48, 96, 160])), 16, 0),
            (int(rng.choice([48, 96, 160])), 32, 4),
            (int(rng.choice([48, 96, 160])), 16, 8),
        ):
            options = {
                "bits": int(rng.integers(2, 9)),
                "group_size": group_size,
                "scale_bits": scale_bits,
                "minimum_bits": minimum_bits,
            }
            yield Challenge({"options": options}, decides=(self.MINIMUM if minimum_bits else self.SCALE,))

    @staticmethod
    def run(learner, challenge):
        return learner.bits_per_weight(**challenge["options"])

    def verify(self, challenge, answer):
        (rung,), options = challenge.decides, challenge["options"]
        expected = _effective(options)
        why = f"{', '.join(f'{k}={v}' for k, v in options.items())}: you gave {describe(answer)}, expected "
        why += f"{expected:.6g}."
        for meaning, value in self._mistakes(**options).items():
            if close(answer, value) and not close(value, expected):
                why += f" {meaning}"
                break
        yield Rung(rung, close(answer, expected), why)

    @staticmethod
    def _mistakes(*, bits, group_size, scale_bits, minimum_bits) -> dict[str, float]:
        extra = scale_bits + minimum_bits
        return {
            "Where is the scale? A group cannot be read without it.": bits,
            "Where is the minimum? Its bits are stored as well.": bits + scale_bits / group_size,
            "Where is the scale? Its bits are stored as well.": bits + minimum_bits / group_size,
            "A group's weights share one scale: how many are they?": bits + extra,
            "The fraction is lost: bits per weight need not be whole.": bits + extra // group_size,
            "The fraction is lost: bits per weight need not be whole. ": round(bits + extra / group_size),
            "The fraction is lost: bits per weight need not be whole.  ": math.ceil(bits + extra / group_size),
            "Those are bytes.": (bits + extra / group_size) / 8,
            "Those are the bits of a whole group.": bits * group_size + extra,
            "That takes 32 bits each for scale and minimum: scale_bits and minimum_bits say how many.": bits
            + 64 / group_size,
            "That takes 32 bits for the scale: scale_bits and minimum_bits say how many.": bits + 32 / group_size,
            "That takes 16 bits each for scale and minimum: scale_bits and minimum_bits say how many. ": bits
            + 32 / group_size,
            "That takes 16 bits for the scale: scale_bits and minimum_bits say how many.": bits + 16 / group_size,
        }


def _effective(candidate: Mapping[str, int]) -> float:
    """Bits per weight, everything counted."""
    return candidate["bits"] + (candidate["scale_bits"] + candidate["minimum_bits"]) / candidate["group_size"]


MOST_FORWARDS = 200  # of one perplexity: a stride of 0 would never end


class Perplexity(Exercise):
    """exp of the mean loss over all N - 1 tokens that something stands before, each scored once.

    The model is a table: what follows depends on the last token, and on the place in the window, so that a token that
    is scored in another window than it should be is seen. The forwards are counted by the judge.
    """

    ONE = "one window: exp of the mean over the N - 1 tokens that have something before them"
    WINDOWS = "windows of `window` tokens end at window, window + stride, ..., N"
    ONCE = "every token but the first is scored once, and counts as much as any other"
    STRIDE = "a stride below 1, or of a whole window and more, is a ValueError"

    name = "perplexity"
    rungs: Mapping[str, float] = {ONE: 1, WINDOWS: 1, ONCE: 1, STRIDE: 1}
    hints = (
        "Which token do the logits at position 0 speak of? Then how many tokens can a text of N be scored on, and "
        "which one never?",
        "N = 10, window = 6, stride = 3: write down where each window starts and ends, and which tokens are new in "
        "it. How many does the last one score? What would the mean of the windows' means make of that?",
    )

    def challenges(self, rng):
        for short in (int(rng.integers(2, 5)), 0):
            window = int(rng.integers(10, 15))
            # whoever raises here as well has not looked at the stride
            yield _scripted_text(rng, window - short, window, int(rng.integers(3, 6)), (self.ONE, self.STRIDE))
        for rest in (0, 1):
            stride = int(rng.integers(4, 7))
            window = 2 * stride + int(rng.integers(2, 4))
            tokens = window + stride * int(rng.integers(3, 6)) + rest * int(rng.integers(2, stride - 1))
            yield _scripted_text(rng, tokens, window, stride, (self.WINDOWS, self.ONCE))
        for stride in (0, -1, -int(rng.integers(2, 9)), 8, 9):
            yield _scripted_text(rng, 30, 8, stride, (self.STRIDE,))

    @staticmethod
    def run(learner, challenge):
        import types

        import torch

        from autograder import lab

        class Table(torch.nn.Module):
            """A causal language model: logits [B, T, V] from the token before and its place in the window."""

            def __init__(self):
                super().__init__()
                self.table = torch.nn.Parameter(torch.as_tensor(challenge["table"]), requires_grad=False)  # [V, V]
                self.sharpness = torch.nn.Parameter(torch.as_tensor(challenge["sharpness"]), requires_grad=False)
                self.config = types.SimpleNamespace(vocab_size=len(self.table), use_cache=False)
                self.device = lab.device()

            def forward(self, input_ids=None, labels=None, logits_to_keep=0, **kwargs):
                for row in input_ids.tolist():
                    challenge["forward"](row)
                logits = self.table[input_ids] * self.sharpness[: input_ids.shape[1], None]
                loss = None
                if labels is not None:  # as transformers does it: -100 is left out
                    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
                return types.SimpleNamespace(logits=logits[:, -logits_to_keep:], loss=loss)

        model, ids = Table().to(lab.device()), torch.tensor([challenge["ids"]], device=lab.device())
        return learner.perplexity(model, ids, window=challenge["window"], stride=challenge["stride"])

    def verify(self, challenge, answer):
        if challenge.may_raise:
            why = self._why_accepted(challenge, answer)
            yield Rung(self.STRIDE, not why, why)
            return
        seen = _windows_seen(challenge)
        if self.WINDOWS in challenge.decides:
            why = _why_windows(challenge, seen)
            yield Rung(self.WINDOWS, not why, why)
        why = _why_perplexity(challenge, answer, seen)
        yield Rung(self.ONE if self.ONE in challenge.decides else self.ONCE, not why, why)

    @staticmethod
    def _why_accepted(challenge, answer) -> str:
        if isinstance(answer, Raised) and answer.kind == "ValueError":
            return ""
        told = f"window={challenge['window']}, stride={challenge['stride']}: a ValueError should say that 1 <= stride "
        told += "< window; "
        if isinstance(answer, Raised):
            return f"{told}{answer} came."
        told += f"{describe(answer)} came back."
        if challenge["stride"] == challenge["window"]:
            return f"{told} Who predicts the first token of a window when windows lie side by side?"
        return told


def _scripted_text(rng, tokens: int, window: int, stride: int, decides) -> Challenge:
    """A text without a token twice, so that every window is found again; each known mistake has a value of its own."""
    for _ in range(100):
        vocabulary = int(rng.integers(64, 80))
        challenge = Challenge(
            {
                "table": rng.normal(0, 1.6, (vocabulary, vocabulary)).astype(np.float32),
                "sharpness": np.linspace(rng.uniform(0.3, 0.5), rng.uniform(1.2, 1.5), 64).astype(np.float32),
                "ids": rng.permutation(vocabulary)[:tokens].tolist(),
                "window": window,
                "stride": stride,
            },
            decides=decides,
            may_raise=stride < 1 or stride >= window,
        )
        if challenge.may_raise or _tells_apart(challenge):
            break
    forwards = []

    def forward(row) -> None:
        forwards.append(row)
        if len(forwards) > MOST_FORWARDS:
            raise RuntimeError(f"the model was called more than {MOST_FORWARDS} times on {tokens} tokens")

    challenge.calls["forward"] = forward
    return challenge


def _tells_apart(challenge) -> bool:
    """Whether the right perplexity and every mistaken one differ by more than rounding, pair by pair."""
    windows = _windows(challenge)
    values = [_right(challenge, windows), *_mistaken_perplexities(challenge, windows).values()]
    usual = sorted(value for value in values if value is not None and math.isfinite(value))
    return all(b - a > 2e-3 * a or b == a for a, b in pairwise(usual))


def _windows(challenge) -> list[tuple[int, int]]:
    """(start, end) of each window."""
    tokens, window, stride = len(challenge["ids"]), challenge["window"], challenge["stride"]
    ends = [*range(min(window, tokens), tokens, stride), tokens]
    return [(max(0, end - window), end) for end in ends]


def _windows_seen(challenge) -> list[tuple[int, int]] | None:
    """The windows of the text that were fed, in order of their ends; None if something else was."""
    ids, seen = challenge["ids"], []
    for _, args, _ in challenge.log:
        row = args[0] if args else None
        if not isinstance(row, list) or not row:
            return None
        start = ids.index(row[0]) if row[0] in ids else len(ids)
        if ids[start : start + len(row)] != row:
            return None
        seen.append((start, start + len(row)))
    return sorted(seen, key=lambda span: (span[1], span[0]))


def _losses(challenge, start: int, end: int, *, shift: bool = True) -> np.ndarray:
    """Loss in nats of tokens start + 1 .. end - 1 in this window (without a shift: of start .. end - 1)."""
    ids = np.array(challenge["ids"][start:end])
    logits = challenge["table"].astype(np.float64)[ids] * challenge["sharpness"][: len(ids), None].astype(np.float64)
    log_p = logits - logits.max(-1, keepdims=True)
    log_p -= np.log(np.exp(log_p).sum(-1, keepdims=True))
    if shift:
        return -log_p[np.arange(len(ids) - 1), ids[1:]]
    return -log_p[np.arange(len(ids)), ids]


def _scored(challenge, windows, *, shift: bool = True, lost: int = 0) -> list[np.ndarray] | None:
    """Per window the losses of the tokens that no earlier one scored; None when a token has nobody to predict it.

    lost: how many of the new tokens each window but the first leaves out.
    """
    done, losses = 1, []
    for number_, (start, end) in enumerate(windows):
        if start >= done and number_:
            return None
        first = max(done, start + 1) + (lost if number_ else 0)
        values = _losses(challenge, start, end, shift=shift)
        losses.append(values[first - start - (1 if shift else 0) :] if first < end else values[:0])
        done = max(done, end)
    return losses if windows and windows[0][0] == 0 and done == len(challenge["ids"]) else None


def _right(challenge, windows) -> float | None:
    losses = _scored(challenge, windows)
    return None if losses is None else float(np.exp(np.concatenate(losses).mean()))


def _mistaken_perplexities(challenge, windows) -> dict[str, float]:
    """What known mistakes give with these windows."""
    losses = _scored(challenge, windows)
    if losses is None:
        return {}
    every, tokens = np.concatenate(losses), len(challenge["ids"])
    mean = every.mean()
    unshifted = np.concatenate(_scored(challenge, windows, shift=False))
    itself = "The logits at a token speak of the next one; yours are held against the token itself."
    mistakes = {
        itself: np.exp(unshifted.mean()),
        f"{itself} ": np.exp(np.concatenate([_losses(challenge, 0, windows[0][1], shift=False)[:1], unshifted]).mean()),
        "That is the mean loss; perplexity is its exp.": mean,
        "The losses are in nats, and yours stand in a power of 2.": 2**mean,
        "Those are bits per token; perplexity is exp of the mean in nats.": mean / math.log(2),
        "The sum is over N - 1 tokens and was divided by N: the first token has nothing before it.": np.exp(
            every.sum() / tokens
        ),
        "That is exp of minus the mean, a probability.": np.exp(-mean),
        "That is the mean of each token's own exp; exp of the mean is asked.": np.exp(every).mean(),
        "That is exp of the sum.": np.exp(min(every.sum(), 700)),
    }
    if len(windows) > 1:
        whole = np.concatenate([_losses(challenge, *window) for window in windows])
        means = np.array([part.mean() for part in losses if len(part)])
        lost = np.concatenate(_scored(challenge, windows, lost=1))
        twice = "Tokens in which windows overlap count twice: only those that no earlier window has scored are new."
        missing = "The first new token of each later window is not scored; its prediction stands before the new ones."
        mistakes |= {
            "That is the mean of the windows' means: the first window scores many tokens and the others few.": np.exp(
                means.mean()
            ),
            "That is the mean of the windows' perplexities.": np.exp(means).mean(),
            twice: np.exp(whole.mean()),
            f"{twice} ": np.exp(whole.sum() / (tokens - 1)),
            f"{twice}  ": np.exp(np.mean([_losses(challenge, *window).mean() for window in windows])),
            missing: np.exp(lost.mean()),
            f"{missing} ": np.exp(lost.sum() / (tokens - 1)),
        }
    return {why: float(value) for why, value in mistakes.items()}


def _why_perplexity(challenge, answer, seen) -> str:
    """What is wrong with the value; the windows that were fed are taken as they are."""
    tokens, told = len(challenge["ids"]), _told_text(challenge)
    if not challenge.log:
        return f"{told}the model was never called."
    windows = seen if seen else _windows(challenge)
    expected = _right(challenge, windows)
    if expected is None:
        return told + _why_unscored(windows, tokens)
    why = f"{told}you gave {_given(answer)}, expected {expected:.6g}."
    if close(answer, expected, relative=1e-4):
        return ""
    for mistake, value in _mistaken_perplexities(challenge, windows).items():
        if close(answer, value, relative=5e-4):
            return f"{why} {mistake}"
    return why


def _given(answer) -> str:
    value = number(answer)
    return describe(answer) if value is None else f"{value:.6g}"


def _why_unscored(windows, tokens: int) -> str:
    """Which tokens cannot have been scored."""
    done = 0
    for start, end in windows:
        if start >= done and done:
            return f"token {start} is the first of its window and no other has it, so nothing predicts it."
        done = max(done, end)
    return f"the last {tokens - done} tokens are in no window, so nobody scores them."


def _told_text(challenge) -> str:
    return f"N={len(challenge['ids'])}, window={challenge['window']}, stride={challenge['stride']}: "


def _why_windows(challenge, seen) -> str:
    """What is wrong with where the windows lie."""
    told, expected = _told_text(challenge), _windows(challenge)
    tokens, window, stride = len(challenge["ids"]), challenge["window"], challenge["stride"]
    if seen == expected:
        return ""
    if seen is None:
        return f"{told}what was fed is not a stretch of ids."
    if not seen:
        return f"{told}the model was never called."
    spans = ", ".join(f"{start}-{end}" for start, end in seen[:4]) + (", ..." if len(seen) > 4 else "")
    wanted = ", ".join(f"{start}-{end}" for start, end in expected[:3]) + f", ..., {expected[-1][0]}-{tokens}"
    why = f"{told}you fed {spans}; expected {wanted}."
    if len(seen) == 1:
        return f"{why} You fed the text at once, longer than a window."
    if seen == [(start, end) for start, end in expected[:-1] if end < tokens]:
        return f"{why} The last {tokens - seen[-1][1]} tokens are in no window."
    if seen[:-1] == expected[:-1] and seen[-1][1] == tokens:
        return f"{why} The last window is shorter than the others, so its tokens see less before them."
    if all(start == 0 for start, _ in seen):
        return f"{why} Yours grow from the start; a window has {window} tokens."
    whole = seen[:-1] if len(seen) > 2 else seen  # the last may move on by less
    steps = {b[1] - a[1] for a, b in pairwise(whole)}
    if steps == {window}:
        return f"{why} Yours lie side by side; a window moves on by stride={stride}."
    if steps == {window - stride} and stride != window - stride:
        return f"{why} The stride is how far a window moves on, not the overlap."
    if len(set(seen)) < len(seen):
        return f"{why} Some were fed more than once."
    return why


class MeanKl(Exercise):
    """KL(reference || other) per position in nats, averaged over positions, safe for very unlikely tokens."""

    DIRECTION = "KL(reference || other) over the vocabulary, in nats"
    MEAN = "averaged over all positions, whatever the shape before the vocabulary"
    SAFE = "finite and right where probabilities underflow"

    name = "mean_kl"
    rungs: Mapping[str, float] = {DIRECTION: 1, MEAN: 1, SAFE: 1}
    hints = (
        "A token that the reference thinks likely and the other model unlikely, and one the other way round: which of "
        "the two should weigh more, and which model's probability is then the weight?",
        "What is the probability of a token whose logit lies 200 below the best, in float32, and what is its "
        "logarithm? Which function gives the logarithm without going through the probability?",
    )

    def challenges(self, rng):
        def logits(*shape, spread=1.5):
            return rng.normal(0, spread, shape).astype(np.float32)

        def pair(*shape):
            """Logits for which every known mistake gives a value of its own."""
            for _ in range(100):
                reference = logits(*shape)
                other = reference + logits(*shape, spread=0.9)
                values = sorted(_kl(reference, other, *made) for made in product(("", *KL_KINDS), ("", *KL_REDUCTIONS)))
                if all(b - a > 1e-3 * abs(a) or b - a < 1e-9 for a, b in pairwise(values)):
                    break
            return reference, other

        positions, vocabulary = int(rng.integers(5, 9)), int(rng.integers(20, 40))
        reference = logits(positions, vocabulary)
        yield self._challenge(*pair(positions, vocabulary), self.DIRECTION)
        yield self._challenge(reference, reference + rng.uniform(-3, 3), self.DIRECTION)  # the same distribution
        yield self._challenge(*pair(int(rng.integers(2, 4)), positions, vocabulary), self.MEAN)
        yield self._challenge(*self._underflowing(rng, positions, vocabulary), self.SAFE)

    @staticmethod
    def _underflowing(rng, positions, vocabulary) -> tuple[np.ndarray, np.ndarray]:
        """Tokens that are likely to one model and, to the other, e^-150 and less; and others hopeless to both."""
        reference, other = rng.normal(0, 1.5, (2, positions, vocabulary)).astype(np.float32)
        reference[:, 0], other[:, 0] = reference.max(-1) + 1, rng.uniform(-260, -150, positions)
        other[:, 1], reference[:, 1] = other.max(-1) + 1, rng.uniform(-260, -150, positions)
        reference[:, 2], other[:, 2] = rng.uniform(-400, -200, (2, positions))
        return reference, other

    @staticmethod
    def _challenge(reference, other, rung) -> Challenge:
        return Challenge(
            {"reference": reference.astype(np.float32), "other": other.astype(np.float32)}, decides=(rung,)
        )

    @staticmethod
    def run(learner, challenge):
        import torch

        from autograder import lab

        pair = [torch.as_tensor(challenge[name]).to(lab.device()) for name in ("reference", "other")]
        before = [logits.clone() for logits in pair]
        return {"given": learner.mean_kl(*pair), "kept": all(map(torch.equal, pair, before))}

    def verify(self, challenge, answer):
        answer, kept = answer["given"], answer["kept"]
        (rung,), value = challenge.decides, number(answer)
        reference, other = challenge["reference"], challenge["other"]
        expected = _kl(reference, other, "", "")
        told = f"logits {list(reference.shape)}: you gave {_given(answer)}, expected {expected:.5g}."
        if value is None:
            yield Rung(rung, False, f"return one number; you returned {describe(answer)}.")
            return
        made = self._made(reference, other, value)
        kind, reduction = made or ("?", "?")
        ok = {self.DIRECTION: kind == "", self.MEAN: reduction == "", self.SAFE: made is not None}[rung]
        why = KL_MISTAKES.get(kind, "") if rung != self.MEAN else KL_MISTAKES.get(reduction, "")
        if made is None and rung == self.SAFE:
            why = (
                "Some probabilities here underflow: they are e^-150 and less, which is 0 in float32, and what is the "
                "logarithm of that? A small number added to it only hides how unlikely the token is."
            )
        if ok and rung == self.DIRECTION and not kept:
            yield Rung(rung, False, CHANGED)
            return
        yield Rung(rung, ok, f"{told} {why}".rstrip())

    @staticmethod
    def _made(reference, other, value: float) -> tuple[str, str] | None:
        """(kind, reduction) of the mistakes that give this value ("" for none), or None."""
        for kind in ("", *KL_KINDS):
            for reduction in ("", *KL_REDUCTIONS):
                made = _kl(reference, other, kind, reduction)
                if math.isclose(value, made, rel_tol=2e-4, abs_tol=2e-6):
                    return kind, reduction
        return None


KL_KINDS = ("reversed", "both", "bits", "cross-entropy", "logits", "over positions")
KL_REDUCTIONS = ("sum", "first axis", "every number")
KL_MISTAKES = {
    "reversed": "That is KL(other || reference), the other way round: whose probabilities are the weights?",
    "both": "That is the mean of both directions; KL(reference || other) alone is asked.",
    "bits": "That is in bits; nats are asked.",
    "cross-entropy": "That is the cross-entropy: the reference's own uncertainty, its entropy, is still in it.",
    "logits": "Logits are not logarithms of probabilities until their logsumexp is taken off.",
    "over positions": "The softmax runs over positions; a distribution is over the vocabulary, the last axis.",
    "sum": "That is the sum over positions; their mean is asked.",
    "first axis": "That is the sum divided by the first axis alone (torch's batchmean); how many positions are there?",
    "every number": "That is the mean over the vocabulary too: a KL is a sum over the vocabulary, one per position.",
}


def _log_softmax(logits: np.ndarray, axis: int = -1) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _kl(reference: np.ndarray, other: np.ndarray, kind: str = "", reduction: str = "") -> float:
    """Mean KL in float64; kind and reduction name mistakes made on purpose."""
    axis = -2 if kind == "over positions" else -1
    log_p, log_q = _log_softmax(reference, axis), _log_softmax(other, axis)
    p, q = np.exp(log_p), np.exp(log_q)
    terms = {
        "reversed": q * (log_q - log_p),
        "both": (p - q) * (log_p - log_q) / 2,
        "bits": p * (log_p - log_q) / math.log(2),
        "cross-entropy": -p * log_q,
        "logits": p * (reference.astype(np.float64) - other),
    }.get(kind, p * (log_p - log_q))
    total = terms.sum()
    return float(
        {"sum": total, "first axis": total / len(terms), "every number": total / terms.size}.get(
            reduction, total / (terms.size / terms.shape[-1])
        )
    )


class SmallestWithin(Exercise):
    """The candidate of the fewest bytes whose mean KL, over all positions of all texts, is at most max_kl."""

    BYTES = "the fewest bytes that stay within, scales and minimums counted, or None"
    TEXTS = "the mean is over every position of every text"
    STOP = "no candidate is evaluated twice, and none once the answer is known"

    name = "smallest_within"
    rungs: Mapping[str, float] = {BYTES: 1, TEXTS: 1, STOP: 1}
    hints = (
        "Evaluating a candidate costs minutes, its size costs nothing. In which order would you try them so that the "
        "first one that is good enough is the answer?",
        "Three texts have 10, 10 and 1000 positions. How much does each count in a mean over positions, and how much "
        "in the mean of three means?",
    )

    def challenges(self, rng):
        yield _sizes_that_mislead(rng, (self.BYTES, self.STOP))
        yield _texts_that_mislead(rng, (self.TEXTS, self.STOP))
        yield _none_within(rng, (self.BYTES, self.STOP))

    @staticmethod
    def run(learner, challenge):
        import types

        import torch

        from autograder import lab

        def tensors(arrays):
            return [torch.as_tensor(array).to(lab.device()) for array in arrays]

        candidates = [types.SimpleNamespace(**options) for options in challenge["candidates"]]

        def place(thing):
            same = isinstance(thing, types.SimpleNamespace)
            return next((i for i, own in enumerate(candidates) if same and own == thing), None)

        def logits_of(candidate):
            if place(candidate) is None:
                raise TypeError(f"logits_of takes one of the candidates, not a {type(candidate).__name__}")
            return tensors(challenge["logits_of"](place(candidate)))

        reference = tensors(challenge["reference_logits"])
        given = learner.smallest_within(reference, logits_of, list(candidates), max_kl=challenge["max_kl"])
        return {"place": place(given), "instead": None if place(given) is not None else given}

    def verify(self, challenge, answer):
        tried = [args[0] for name, args, _ in challenge.log if name == "logits_of"]
        given = answer["place"]
        right = answer["instead"] is None and given == challenge.right
        why = _why_chosen(challenge, answer, tried)
        rung = self.BYTES if self.BYTES in challenge.decides else self.TEXTS
        yield Rung(rung, right, why)
        why = _why_tried(challenge, tried, given, right)
        yield Rung(self.STOP, not why, why)


@dataclass
class Choice(Challenge):
    """Candidates with scripted logits. What they are like stays with the judge."""

    kls: list[float] = field(default_factory=list)  # of each candidate, over all positions of all texts
    shares: list[list[float]] = field(default_factory=list)  # of each candidate and text, as multiples of max_kl
    right: int | None = None  # the place of the right candidate

    @property
    def sizes(self) -> list[float]:
        """Bits per weight of each candidate."""
        return [_effective(options) for options in self["candidates"]]


def _choice(rng, candidates: Sequence[tuple[dict, Sequence[float]]], positions: Sequence[int], decides) -> Choice:
    """A challenge of (options, KL per text as multiples of max_kl), smallest first, put into a misleading order."""
    max_kl, vocabulary = float(rng.uniform(0.02, 0.2)), 11
    reference = [rng.normal(0, 2, (n, vocabulary)).astype(np.float32) for n in positions]
    weights = np.array(positions) / sum(positions)
    pooled = [float(np.dot(weights, shares)) for _, shares in candidates]
    order = _misleading_order(rng, pooled)
    logits = [
        [_at_distance(rng, r, share * max_kl) for r, share in zip(reference, candidates[i][1], strict=True)]
        for i in order
    ]
    within = [i for i, kl in enumerate(pooled) if kl <= 1]

    def logits_of(place) -> list[np.ndarray]:
        if type(place) is not int or not 0 <= place < len(logits):  # a candidate has one place, none from the end
            raise IndexError(f"logits_of takes one of the {len(logits)} candidates")
        return logits[place]

    return Choice(
        {"candidates": [candidates[i][0] for i in order], "reference_logits": reference, "max_kl": max_kl},
        calls={"logits_of": logits_of},
        decides=decides,
        kls=[pooled[i] * max_kl for i in order],
        shares=[list(candidates[i][1]) for i in order],
        right=order.index(within[0]) if within else None,
    )


def _misleading_order(rng, pooled: Sequence[float]) -> list[int]:
    """Places in an order of which neither end gives the answer away.

    The first that is within is the largest such (unless the smallest is to be met first), the last is not within.
    """
    order = rng.permutation(len(pooled)).tolist()
    within = [place for place in order if pooled[place] <= 1]
    if len(within) > 2:
        _swap(order, order.index(within[0]), order.index(max(within)))
    elif within and within[0] != min(within):
        _swap(order, order.index(within[0]), order.index(min(within)))
    if pooled[order[-1]] <= 1:
        over = [at for at, place in enumerate(order) if pooled[place] > 1]
        order.append(order.pop(int(rng.choice(over))))
    return order


def _swap(order: list[int], one: int, other: int) -> None:
    order[one], order[other] = order[other], order[one]


def _at_distance(rng, reference: np.ndarray, kl: float) -> np.ndarray:
    """Logits whose mean KL from the reference is `kl`: along a ray it grows without end."""
    direction = rng.normal(0, 1, reference.shape)
    near, far = 0.0, 1.0
    while _kl(reference, reference + far * direction) < kl:
        far *= 2
    for _ in range(50):
        middle = (near + far) / 2
        near, far = (middle, far) if _kl(reference, reference + middle * direction) < kl else (near, middle)
    return (reference + far * direction).astype(np.float32)


def _options(bits: int, group_size: int, scale_bits: int = 16, minimum_bits: int = 0) -> dict[str, int]:
    return {"bits": bits, "group_size": group_size, "scale_bits": scale_bits, "minimum_bits": minimum_bits}


def _sizes_that_mislead(rng, decides) -> Choice:
    """Texts agree; bits alone, bits without minimums, walking down and bisecting each lead to another candidate."""
    bits = int(rng.integers(4, 7))
    candidates = [
        (_options(bits - 2, 128, 16, 16), 6.0),
        (_options(bits - 1, 256), 3.0),
        (_options(bits, 128), 0.7),  # the answer
        (_options(bits, 256, 16, 32), 0.75),  # smaller when minimums cost nothing
        (_options(bits, 32), 1.6),
        (_options(bits, 64, 32, 16), 1.5),
        (_options(bits - 1, 16, 32), 0.6),  # fewer bits, more bytes
        (_options(bits - 2, 16, 32, 32), 2.0),
        (_options(8, 64, 16, 16), 0.05),
    ]
    spread = [(options, rng.uniform(0.97, 1.03, 3) * kl) for options, kl in candidates]
    return _choice(rng, spread, rng.integers(4, 9, 3).tolist(), decides)


def _texts_that_mislead(rng, decides) -> Choice:
    """Bits and bytes agree; a text alone, the mean of texts' means and the worst text lead elsewhere."""
    bits, group_size = int(rng.integers(2, 4)), int(rng.choice([32, 64]))
    shares = ((0.4, 2.2, 2.2), (2.2, 2.2, 0.4), (0.3, 1.6, 0.3), (1.8, 0.6, 1.8), (0.4, 0.4, 0.4))
    candidates = [(_options(bits + i, group_size), share) for i, share in enumerate(shares)]
    return _choice(rng, candidates, (int(rng.integers(4, 6)), int(rng.integers(24, 31)), 4), decides)


def _none_within(rng, decides) -> Choice:
    bits = int(rng.integers(2, 5))
    kls = np.sort(rng.uniform(1.3, 6, 4))[::-1]
    candidates = [(_options(bits + i, 64), np.full(2, kl)) for i, kl in enumerate(kls)]
    return _choice(rng, candidates, rng.integers(4, 9, 2).tolist(), decides)


def _in_words(challenge: Choice, place: int) -> str:
    options = challenge["candidates"][place]
    extra = f" and a minimum of {options['minimum_bits']}" if options["minimum_bits"] else ""
    return (
        f"{options['bits']} bits in groups of {options['group_size']} with a scale of {options['scale_bits']} bits"
        f"{extra} ({challenge.sizes[place]:.4g} bits per weight)"
    )


def _why_chosen(challenge: Choice, answer: Mapping[str, Any], tried: Sequence[int]) -> str:
    """What is wrong with the candidate that was returned."""
    given, right, most = answer["place"], challenge.right, challenge["max_kl"]
    if answer["instead"] is not None:
        return f"return the candidate itself, or None; you returned {describe(answer['instead'])}."
    if given == right:
        return ""
    if given is None:
        return (
            f"you returned None, but {_in_words(challenge, right)} is within: mean KL {challenge.kls[right]:.4f} over "
            f"all positions of all texts, and {most:.4f} is allowed. {OWN_CHECK}"
        )
    told = f"you returned {_in_words(challenge, given)}. "
    if challenge.kls[given] > most:
        told += f"Its mean KL over all positions of all texts is {challenge.kls[given]:.4f}, above {most:.4f}. "
        return told + (
            _why_thought_within(challenge.shares[given], challenge)
            if right is not None
            else ("None of them is within, and then the answer is None.")
        )
    told += f"{_in_words(challenge, right)} is smaller, and within: mean KL {challenge.kls[right]:.4f} of {most:.4f}. "
    return told + _why_passed_over(challenge, given, tried)


def _why_thought_within(shares: Sequence[float], challenge: Choice) -> str:
    """Which mistaken mean is within, of the KLs per text as multiples of what is allowed."""
    if shares[0] <= 1 < min(shares[1:]):
        return "The first text alone is within; what of the others?"
    if shares[-1] <= 1 < min(shares[:-1]):
        return "The last text alone is within; what of the others?"
    if np.mean(shares) <= 1:
        return "The mean of the texts' means is within, but there a short text counts as much as a long one."
    return OWN_CHECK


def _why_passed_over(challenge: Choice, given: int, tried: Sequence[int]) -> str:
    """Why a smaller candidate that is within was not returned."""
    sizes, options = challenge.sizes, challenge["candidates"]
    right, shares = challenge.right, challenge.shares
    if max(shares[given]) <= 1 < max(shares[right]):
        return "Is yours the smallest that is within on each text? The mean over all positions decides."
    down = sorted(range(len(sizes)), key=lambda place: -sizes[place])
    if list(tried) == down[: len(tried)] and tried[-1:] != [given]:
        return "You went from large to small until one failed; a smaller one can be better than a larger one."
    if len(set(tried)) == len(sizes) and challenge.kls[given] == min(challenge.kls):
        return "That has the smallest KL of all; the smallest size that is good enough is asked."
    by_bits = sorted(range(len(sizes)), key=lambda place: options[place]["bits"])
    if len(tried) > 1 and list(tried) == by_bits[: len(tried)]:
        return "You went by the bits of a number; with its scales and minimums, which takes fewest per weight?"
    if list(tried) == list(range(len(tried))):
        return "You went by the order of the list: by what should they be sorted?"
    if len(tried) < len(sizes) and tried[:1] == [down[len(down) // 2]]:
        return "You halved the list, but a smaller candidate is not always the worse one."
    if options[given]["bits"] >= options[right]["bits"] and options[given]["minimum_bits"]:
        return "Are minimums counted? They are stored, too."
    if options[given]["bits"] <= options[right]["bits"]:
        return "Fewer bits are not always fewer bytes: scales and minimums are stored, too."
    return OWN_CHECK


def _why_tried(challenge: Choice, tried: Sequence[int], given: int | None, right: bool) -> str:
    """What was evaluated needlessly."""
    count = len(challenge["candidates"])
    if not tried:
        return "logits_of was never called."
    if len(set(tried)) < len(tried):
        again = next(place for place in tried if list(tried).count(place) > 1)
        return (
            f"{_in_words(challenge, again)} was evaluated {list(tried).count(again)} times; twice is once too often. "
            "Keep what logits_of gave."
        )
    needless = [place for place in tried if given is not None and challenge.sizes[place] > challenge.sizes[given]]
    if (right and needless) or (given is not None and tried[-1] != given):
        return (
            f"you evaluated {len(tried)} of {count} candidates, among them some when the answer was already known or "
            "could not be among them. Which ones must be tried before you may return the one you did?"
        )
    return ""


WHAT_QUANTIZATION_TRADES = MarkScheme(
    "what_quantization_trades",
    points=(
        SchemePoint(
            "What is lost and how it grows: a weight moves by at most half a step, and a step is the group's range "
            "over 2^bits - 1, so each bit less doubles the error.",
            earns="A weight ends on the nearest of 2^b levels between its group's smallest and largest, so it moves by "
            "up to half of range / (2^b - 1); one bit less doubles that.",
            does_not="With fewer bits the weights are less precise, so the model gets worse.",
        ),
        SchemePoint(
            "Effective bits of a format, worked out: bits plus the scale's (and minimum's) bits over the group size.",
            earns="4 bits in groups of 32 with a 16-bit scale and a 16-bit minimum are 4 + 32/32 = 5 bits per weight, "
            "not 4.",
            does_not="One also has to store the scales, which takes a little additional memory.",
        ),
        SchemePoint(
            "The loss in a named measure at two settings of the learner's own, and the text it was measured on.",
            earns="On 256 tokens of the course's text my mean KL was 0.07 nats at 5 bits and 0.31 at 4, both in groups "
            "of 32 with minimums.",
            does_not="At 4 bits the quality is nearly the same and at 3 bits it breaks down.",
        ),
        SchemePoint(
            "Why smaller groups (or minimums) help: an outlier stretches the steps of its own group alone, or "
            "a minimum spends no levels where no weights are; and their price in bits.",
            earns="One large weight sets the step for all that share its scale; in groups of 32 it spoils 31 others "
            "instead of 575, and costs half a bit per weight for a 16-bit scale.",
            does_not="Smaller groups are more accurate but need more memory.",
        ),
        SchemePoint(
            "A decision for a named use, with bytes or seconds before and after, and a case in which fewer bytes do "
            "not make it faster, with the cause.",
            earns="For one user on a 24 GB card I take 4.5 bits: an 8B model shrinks from 16.1 to 4.5 GB and each "
            "token reads 28% of the bytes. A long prompt would not gain: there each weight read serves thousands of "
            "tokens, and arithmetic decides.",
            does_not="I would use 4-bit quantization because it makes the model four times smaller and faster.",
        ),
    ),
    samples=(
        Sample(
            "Rounding moves a weight to the nearest of 2^b levels between its group's minimum and maximum, so by up "
            "to half of range / (2^b - 1): each bit less doubles the error. 4 bits in groups of 32, with scale and "
            "minimum of 16 bits each, are 4 + 32/32 = 5 bits per weight. On 256 tokens of the course's text my mean "
            "KL was 0.07 nats at 5 bits and 0.31 at 4, in groups of 32. A row's largest weight sets the step of all "
            "that share its scale; with groups of 32 it spoils 31 neighbours and not a whole row, for half a bit per "
            "16-bit scale. For one user on a laptop I take 4 bits in groups of 32: an 8B model of 16.1 GB becomes 5.0"
            " GB, and at most 3.2 times the tokens per second. With a batch of hundreds it would not help, for then "
            "arithmetic and not the reading of weights takes the time.",
            awarded=(True, True, True, True, True),
            why="The step is derived, the bits are worked out, the KL is given at two settings with its text, the "
            "cause of groups is an outlier's reach, and the decision has bytes and a case where it fails.",
        ),
        Sample(
            "Quantization trades memory against quality. A weight is rounded to one of 2^b levels between the minimum "
            "and the maximum of its group, so the error is up to half of (max - min) / (2^b - 1) and doubles with "
            "each bit less. With groups of 32 and 16-bit scales a 4-bit format really has 4.5 bits per weight. My "
            "perplexity got a bit worse at 4 bits and much worse at 3 bits. Smaller groups are better because they are "
            "more accurate, but they need more scales. I would use 4 bits since the model is then four times smaller "
            "and generation is memory-bound, so it is also about four times faster.",
            awarded=(True, True, False, False, False),
            why="3: no numbers, and no text they were measured on. 4: 'more accurate' is no cause; whose steps does an "
            "outlier stretch? 5: no named use, and no case in which it does not help.",
        ),
    ),
)

CHAPTER = Chapter(
    "05_fewer_bits",
    "Fewer bits",
    exercises=(PackInt4(), QuantizeGroups(), BitsPerWeight(), Perplexity(), MeanKl(), SmallestWithin()),
    written=(WHAT_QUANTIZATION_TRADES,),
)
