"""Chapter 04: weights in eight bits: bytes held, speed at one token and at many, and what the model still says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from autograder.exercise import (
    Challenge,
    Chapter,
    Exercise,
    MarkScheme,
    Rung,
    Sample,
    SchemePoint,
    close,
    describe,
    number,
)

HALF_STEP = 0.5 * (1 + 1e-4)  # of a scale, with room for the rounding of float32
SPREAD = math.sqrt(1 + 1 / 12)  # root mean square of numbers drawn evenly from 0.5 to 1.5


class QuantizeInt8(Exercise):
    """Symmetric 8-bit rounding, one scale per output row."""

    SCALES = "one float32 scale per output row, no larger than the row needs"
    ROUNDED = "int8 in [-127, 127], every weight within half a step of what it was"
    ZEROS = "a row of zeros stays zero, with a scale above 0"

    name = "quantize_int8"
    rungs: Mapping[str, float] = {SCALES: 1, ROUNDED: 1, ZEROS: 1}
    hints = (
        "A row holds 0.3, -0.9 and 0.6. Which number should become 127 or -127, and how large is one step then?",
        "127 steps on either side of 0. What is 2.9 steps, and what does a conversion to int8 make of it? And how "
        "large is a step when there is nothing but zeros?",
    )

    def challenges(self, rng):
        weight = _uneven(rng, rows=int(rng.integers(7, 12)), columns=int(rng.integers(40, 60)))
        yield Challenge({"weight": weight, "dtype": "float32"}, decides=(self.SCALES, self.ROUNDED))
        weight = _uneven(rng, rows=int(rng.integers(12, 17)), columns=int(rng.integers(90, 120)))
        yield Challenge({"weight": weight, "dtype": "bfloat16"}, decides=(self.SCALES, self.ROUNDED))
        weight = _uneven(rng, rows=6, columns=int(rng.integers(20, 30)))
        weight[[1, 4]] = 0
        yield Challenge({"weight": weight, "dtype": "float32"}, decides=(self.ZEROS,))

    @staticmethod
    def run(learner, challenge):
        import torch

        from autograder import lab

        weight = torch.as_tensor(challenge["weight"]).to(lab.device(), getattr(torch, challenge["dtype"]))
        before = weight.clone()
        given = learner.quantize_int8(weight)
        return {"given": given, "kept": torch.equal(weight, before)}

    def verify(self, challenge, answer):
        weight = _as_stored(challenge["weight"], challenge["dtype"])
        problems = self._problems(weight, answer["given"])
        if not answer["kept"]:
            problems[self.ROUNDED] = (
                "the weight that came in has changed. It is the caller's: which of your operations writes into it?"
            )
        for rung in challenge.decides:
            problem = problems.get(rung)
            yield Rung(rung, problem is None, f"a {challenge['dtype']} weight {list(weight.shape)}: {problem}")

    def _problems(self, weight: np.ndarray, answer: Any) -> dict[str, str]:
        """Rung -> what is wrong there."""
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            return dict.fromkeys(self.rungs, f"return the pair (q, scale); you returned {describe(answer)}.")
        q, scale = answer
        rows = len(weight)
        if bad := _why_scale(scale, weight):
            return dict.fromkeys(self.rungs, bad)
        found, scale = {}, _floats(scale)
        if bad := _why_codes(q, weight):
            found |= {self.ROUNDED: bad, self.ZEROS: bad}
        needed = np.abs(weight).max(axis=1) / 127  # [O]
        filled = needed > 0
        if (scale[filled] > 1.01 * needed[filled]).any():
            found[self.SCALES] = _why_coarse(scale, weight)
        if bad:
            return found
        q = np.asarray(q.cpu() if hasattr(q, "cpu") else q).astype(np.float64)
        off = np.abs(weight - q * scale[:, None]).max(axis=1)[filled] / scale[filled]  # in steps
        if not (off <= HALF_STEP).all():
            found[self.ROUNDED] = _why_off(weight[filled], q[filled], scale[filled], float(off.max()))
        elif q.min() < -127:
            found[self.ROUNDED] = "there is a -128 among q: symmetric codes go from -127 to 127."
        empty = rows - int(filled.sum())
        if empty and not (scale[~filled] > 0).all():
            found[self.ZEROS] = (
                "the scale of a row of zeros is 0: whoever divides by it gets nan, and what int8 makes of nan differs "
                "from machine to machine. Any step above 0 will do for such a row."
            )
        elif empty and np.abs(q[~filled]).any():
            found[self.ZEROS] = "a row of zeros came back as something else."
        elif empty and not q.any():
            found[self.ZEROS] = "all rows came back as zeros, also those that hold something."
        return found


def _uneven(rng, *, rows: int, columns: int) -> np.ndarray:
    """A matrix whose rows differ in size by up to a hundred; half of them have their largest entry below zero."""
    weight = rng.standard_normal((rows, columns)) * np.geomspace(0.01, 1, rows)[:, None]
    place = rng.integers(columns, size=rows)
    sign = np.where(np.arange(rows) % 2, 1.0, -1.0)
    weight[np.arange(rows), place] = 1.6 * sign * np.abs(weight).max(axis=1)
    return weight.astype(np.float32)


def _as_stored(weight: np.ndarray, dtype: str) -> np.ndarray:
    """The matrix in float64, with the values it has in that dtype."""
    import torch

    return torch.from_numpy(weight).to(getattr(torch, dtype)).double().numpy()


def _why_scale(scale: Any, weight: np.ndarray) -> str | None:
    """What is wrong with the form of the scales."""
    rows, columns = weight.shape
    given, shape = _floats(scale), tuple(getattr(scale, "shape", ()))
    if given is None:
        return f"scale is float32 of shape [{rows}], one per output row; yours is {describe(scale)}."
    if given.size == 1:
        return f"there is one scale for the whole matrix; each of the {rows} output rows has its own."
    if shape in ((columns,), (1, columns)):
        return f"there is a scale for each of the {columns} inputs; it belongs to the {rows} outputs, the rows."
    if shape != (rows,) or "float32" not in str(scale.dtype):
        return f"scale is float32 of shape [{rows}]; yours is {describe(scale)}."
    if np.isnan(given).any() or np.isinf(given).any():
        return "there is a nan or an infinity among the scales: what was divided by what?"
    if (wrong := (given < 0) | (given == 0) & weight.any(axis=1)).any():
        row = int(np.argmax(wrong))
        return f"row {row} has a scale of {given[row]:.4g}; a scale is the length of a step, and that is above 0."
    return None


def _why_codes(q: Any, weight: np.ndarray) -> str | None:
    """What is wrong with the form of the codes."""
    shape = list(getattr(q, "shape", ()))
    if "int8" not in str(getattr(q, "dtype", "")) or "uint8" in str(q.dtype):
        why = f"q is int8 of shape {list(weight.shape)}; yours is {describe(q)}."
        return why + (" Whole numbers in a float still take a float's bytes." if "float" in describe(q) else "")
    if shape != list(weight.shape):
        return f"q has the weight's shape {list(weight.shape)}; yours is {describe(q)}."
    return None


def _why_coarse(scale: np.ndarray, weight: np.ndarray) -> str:
    if scale.max() < 1.0001 * scale.min():
        return (
            f"all {len(scale)} scales are the same: that is one scale for the whole matrix, as coarse for the smallest "
            "row as for the largest."
        )
    row = int(np.argmax(scale / np.maximum(np.abs(weight).max(axis=1) / 127, 1e-30)))
    return (
        f"row {row} reaches {np.abs(weight[row]).max():.4g}, so a step of {np.abs(weight[row]).max() / 127:.4g} would "
        f"do; yours is {scale[row]:.4g}, and coarser steps lose more."
    )


def _why_off(weight: np.ndarray, q: np.ndarray, scale: np.ndarray, worst: float) -> str:
    """Why codes are further than half a step from the weights; by the mistakes that are known."""
    told = f"one weight is {worst:.3g} steps from what it was, and half a step is always possible."
    steps = weight / scale[:, None]
    clipped = np.abs(steps) > 127.5
    if (q < -127).any():
        return f"{told} There is a -128 among q: symmetric codes go from -127 to 127. How many steps reach the largest?"
    if clipped.any() and (np.sign(steps[clipped]) < 0).all():
        return f"{told} Only weights below zero are too far: which number is a row's largest *magnitude*?"
    if clipped.any():
        return f"{told} The scale is too small for the largest weights of a row, which were cut off."
    between = np.abs(steps - np.round(steps)) > 1e-3  # where float32 and float64 agree on the next whole number
    if np.array_equal(q[between], np.trunc(steps[between])):
        return f"{told} A conversion to int8 cuts the fraction off; it does not round."
    if np.array_equal(q[between], np.floor(steps[between])):
        return f"{told} The codes are rounded down; to the nearest is half as far."
    if worst < 0.8:
        return f"{told} Near 127 a bfloat16 has steps of a half: in which dtype was the quotient rounded?"
    return told


class Int8Matvec(Exercise):
    """One token's product with a matrix held in int8, read as int8."""

    FLOAT = "a float32 x: within 2% of the product"
    BFLOAT = "a bfloat16 x: within 2%"
    COPY = "no float copy of the weight is made, and none is kept"

    name = "int8_matvec"
    rungs: Mapping[str, float] = {FLOAT: 1, BFLOAT: 1, COPY: 1}
    speed_points = 2
    speed_rung = "faster at one token than the library's product with a float weight"
    minimum_ratio = 1.5
    seconds = 90.0  # of which nearly all may be spent compiling
    timed_seconds = 90.0
    memory_bytes = 8 << 30
    held_bytes = 384 << 20  # a float copy of what rotates has at least half a gigabyte
    hints = (
        "The bytes that must be read are those of q. Which larger thing does your code write and read besides, and "
        "who could make each float only where it is used up?",
        "An elementwise product and a sum over the last axis are the same numbers as `@`. Which of the two does "
        "torch.compile turn into one loop of its own, and which does it hand to a library that wants a float matrix? "
        "And where does the scale belong, so that it is not applied to every weight?",
    )

    def challenges(self, rng):
        # One shape: each further one would be compiled again. Blocks of rows leave a rest; columns are by 16,
        # for with others the packed operator of torch 2.13 gives other numbers.
        rows, columns = 771, 1056
        for dtype, rung in (("float32", self.FLOAT), ("bfloat16", self.BFLOAT)):
            data = self._product(rng, rows, columns) | {"dtype": dtype, "again": None}
            yield Challenge(data, decides=(rung,))
        data = self._product(rng, rows, columns) | {"dtype": "float32"}
        again = [rng.standard_normal(columns, dtype=np.float32) for _ in range(2)]
        yield Challenge(data | {"again": again}, decides=(self.COPY,))

    @staticmethod
    def _product(rng, rows: int, columns: int) -> dict:
        return {
            "x": rng.standard_normal(columns, dtype=np.float32),
            "q": rng.integers(-127, 128, size=(rows, columns), dtype=np.int8),
            "scale": rng.uniform(0.001, 0.02, size=rows).astype(np.float32),
        }

    @staticmethod
    def run(learner, challenge):
        import tracemalloc

        import torch

        from autograder import lab

        def put(array, dtype=None):
            return torch.as_tensor(array).to(device=lab.device(), dtype=dtype)

        dtype = getattr(torch, challenge["dtype"])
        x, q, scale = put(challenge["x"], dtype), put(challenge["q"]), put(challenge["scale"])
        if challenge["again"] is None:
            came = [part.clone() for part in (x, q, scale)]
            given = learner.int8_matvec(x, q, scale)
            return {"answer": given, "stayed": all(map(torch.equal, (x, q, scale), came))}

        before = lab.alive.storages()
        learner.int8_matvec(x, q, scale)  # compiles, or fills what it keeps
        kept = lab.alive.added(before)
        later = [put(array, dtype) for array in challenge["again"]]
        learner.int8_matvec(later[0], q.flip(0), scale)
        if lab.device().type == "cuda":
            lab.sync()
            torch.cuda.reset_peak_memory_stats()
            there = torch.cuda.memory_allocated()
            answer = learner.int8_matvec(later[1], q, scale)
            lab.sync()
            largest = torch.cuda.max_memory_allocated() - there
        else:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
                answer = learner.int8_matvec(later[1], q, scale)
            events = seen.profiler.kineto_results.events()
            largest = max((event.nbytes() for event in events if event.name() == "[memory]"), default=0)
            tracemalloc.start()  # arrays that torch does not make
            learner.int8_matvec(later[0], q, scale)
            largest = max(largest, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        return {"answer": answer, "kept": kept, "largest": largest}

    def verify(self, challenge, answer):
        if challenge["again"] is None:
            (rung,) = challenge.decides
            complaint = _why_product(challenge, answer["answer"])
            if not answer["stayed"]:
                complaint = complaint or "x, q or scale have changed, and they are the caller's: what writes there?"
            yield Rung(rung, complaint is None, complaint or "")
            return
        complaint = _why_product(challenge, answer["answer"], challenge["again"][1])
        complaint = self._why_copy(challenge["q"], answer) or complaint
        yield Rung(self.COPY, complaint is None, complaint or "")

    @staticmethod
    def _why_copy(q, answer) -> str | None:
        weights = q.size
        if answer["kept"] >= weights:
            return (
                f"after a call {answer['kept'] / weights:.2g} bytes per weight stay behind, which were not there "
                "before: a copy that is kept is read as well, and the int8 weight is held for nothing."
            )
        if answer["largest"] >= weights:
            return (
                f"in one call a tensor of {answer['largest'] / weights:.2g} bytes per weight is made: the weight is "
                "turned into floats as a whole, written to memory and read again. Only its own bytes should move."
            )
        return None

    workloads = (
        {"size": 4096, "products": 16},
        {"size": 4096, "products": 64},
        {"size": 8192, "products": 16},
        {"size": 16384, "products": 8},
    )

    def timed_challenge(self, rng, workload):
        """One token through several square matrices, one into the next.

        All of them are taken from a pool that no cache keeps: each call goes on where the one before has stopped, from
        a place that nobody knows exactly.
        """
        from autograder import lab

        size, numbers, products = _timed_sizes(workload)
        start = next(_calls) * products * size**2 + int(rng.integers(size**2))
        std = lab.rotation.NUMBER_STD * math.sqrt(size) * SPREAD  # of a product with a scale around 1: none grows
        return Challenge(
            {
                "size": size,
                "numbers": numbers,
                "products": products,
                "seed": _pool_seed(),
                "start": start % numbers,
                "dtype": str(lab.machine_card().dtype).removeprefix("torch."),
                "x": rng.standard_normal(size, dtype=np.float32),
                "scale": (rng.uniform(0.5, 1.5, size) / std).astype(np.float32),
            }
        )

    @staticmethod
    def timed_run(learner, challenge):
        import torch

        from autograder import lab

        size, numbers, places = (
            challenge["size"],
            challenge["numbers"],
            challenge["numbers"] - challenge["size"] ** 2 + 1,
        )
        weights = lab.rotation.pool(numbers, challenge["seed"])
        scale = torch.as_tensor(challenge["scale"]).to(lab.device())
        x = torch.as_tensor(challenge["x"]).to(lab.device(), getattr(torch, challenge["dtype"]))
        for i in range(challenge["products"]):
            start = (challenge["start"] + i * size**2) % places // 64 * 64
            q = weights[start : start + size**2].view(size, size)
            x = learner.int8_matvec(x, q, scale).to(x.dtype)
        return x

    @staticmethod
    def baseline(challenge):
        import torch

        from autograder import lab

        size, numbers, places = (
            challenge["size"],
            challenge["numbers"],
            challenge["numbers"] - challenge["size"] ** 2 + 1,
        )
        dtype = getattr(torch, challenge["dtype"])
        weights = lab.rotation.pool(numbers, challenge["seed"], dtype)  # the same numbers as floats
        scale = torch.as_tensor(challenge["scale"]).to(lab.device())
        x = torch.as_tensor(challenge["x"]).to(lab.device(), dtype)
        for i in range(challenge["products"]):
            start = (challenge["start"] + i * size**2) % places // 64 * 64
            weight = weights[start : start + size**2].view(size, size)
            x = (torch.nn.functional.linear(x, weight) * scale).to(dtype)
        return x

    @property
    def accepted(self):
        """The library's packed operator, which is made for processors."""
        from autograder import lab

        return None if lab.machine_card().device == "cuda" else self.packed

    @staticmethod
    def packed(challenge):
        import torch

        from autograder import lab

        size, numbers, places = (
            challenge["size"],
            challenge["numbers"],
            challenge["numbers"] - challenge["size"] ** 2 + 1,
        )
        weights = lab.rotation.pool(numbers, challenge["seed"])
        scale = torch.as_tensor(challenge["scale"]).bfloat16()
        x = torch.as_tensor(challenge["x"]).to(getattr(torch, challenge["dtype"]))
        for i in range(challenge["products"]):
            start = (challenge["start"] + i * size**2) % places // 64 * 64
            q = weights[start : start + size**2].view(size, size)
            x = torch._weight_int8pack_mm(x.bfloat16()[None], q, scale)[0].to(x.dtype)
        return x

    def agrees(self, challenge, answer, expected):
        given, expected = _floats(answer), _floats(expected)
        if given is None or given.shape != expected.shape:
            return f"{len(expected)} numbers came out of the last product before; now it is {describe(answer)}"
        products = challenge["products"]
        off = _relative(given, expected)
        if off <= 0.01 * math.sqrt(products):
            return None
        return f"after {products} products, one into the next, the result is off by {off:.0%}"

    def bytes_moved(self, workload):
        size, _, products = _timed_sizes(workload)
        return products * size**2


_calls = count()  # timed calls of this judge: where the next one begins in the pool


def _timed_sizes(workload: dict) -> tuple[int, int, int]:
    """(rows and columns of a matrix, weights in the pool, products of one call)."""
    size = workload["size"]
    numbers = max(_rotating(), 2 * size**2)
    return size, numbers, min(workload["products"], numbers // size**2)


@cache
def _rotating() -> int:
    """Weights in the pool, the same for the whole life of this process."""
    from autograder import lab

    return lab.rotation.rotation_bytes()


@cache
def _pool_seed() -> int:
    """Of the pool that rotates: new for every judge."""
    import secrets

    return secrets.randbits(62)


def _why_product(challenge, answer, x: np.ndarray | None = None) -> str | None:
    """What is wrong with a product of one token."""
    dtype, q, scale = challenge["dtype"], challenge["q"].astype(np.float64), challenge["scale"].astype(np.float64)
    x = _as_stored(challenge["x"] if x is None else x, dtype)  # [E]
    expected = (q @ x) * scale  # [O]
    given, told = _floats(answer), f"{dtype} x [{len(x)}], q {list(q.shape)}: "
    if given is None or given.shape != expected.shape:
        why = f"{told}a float tensor of shape [{len(expected)}] is expected; you returned {describe(answer)}."
        if given is not None and given.ndim == 1 and len(given) < len(expected):
            why += " Rows are missing: does your code take blocks of them, and what of those that fill no block?"
        return why
    if not np.isfinite(given).all():
        return f"{told}there is a nan or an infinity in the result."
    off = _relative(given, expected)
    if off <= 0.02 and np.abs(given - expected).max() <= 0.1 * expected.std():
        return None
    if _relative(given, q @ x) <= 0.02:
        return f"{told}that is the product with the codes; each output row still has its scale to come."
    if _relative(given, (q @ np.trunc(x)) * scale) <= 0.05:
        return f"{told}x was cut to whole numbers. Only the weight is in int8."
    if _relative(given, (q @ np.round(x)) * scale) <= 0.05:
        return f"{told}x was rounded to whole numbers. Only the weight is in int8."
    return f"{told}off by {off:.0%} of the result's size; rounding in bfloat16 explains less than 1%."


def _relative(given: np.ndarray, expected: np.ndarray) -> float:
    """Size of the difference over the size of what is expected."""
    if given.shape != expected.shape:
        return math.inf
    return float(np.linalg.norm(given - expected) / np.linalg.norm(expected))


class Int8Linear(Exercise):
    """A linear layer that holds int8 codes, for one token and for many."""

    SHAPES = "x of any leading shape, and the layer's own dtype comes out"
    BIAS = "the bias is kept, and its absence too"
    HELD = "at most 1 byte per weight and 8 per output row are held; the float weight is gone"

    name = "Int8Linear"
    rungs: Mapping[str, float] = {SHAPES: 1, BIAS: 1, HELD: 1}
    speed_points = 1
    speed_rung = "at 256 tokens no slower than the course's solution by 30%"
    not_slower = True
    seconds = 90.0
    timed_seconds = 90.0
    memory_bytes = 6 << 30
    held_bytes = 256 << 20  # in bfloat16 the layers that are timed have 400 MB more than in int8
    hints = (
        "What does x look like in a model, and what comes out of `nn.Linear` for [E], [T, E] and [B, T, E]? "
        "Which of them is one token?",
        "With 256 tokens every weight is used 256 times. What does a float copy of the weight cost then, per use, and "
        "what would unpacking it anew for every token cost? And who still holds the float weight after `from_linear`?",
    )

    def challenges(self, rng):
        rows, columns = 160, 224
        plain = {"weight": _uneven(rng, rows=rows, columns=columns), "bias": None, "dtype": "float32"}
        for leading in ([], [1], [5], [2, 3], [1, 1], [2, 2, 2]):
            x = rng.standard_normal((*leading, columns), dtype=np.float32)
            yield Challenge(plain | {"x": x, "count": False}, decides=(self.SHAPES,))
        bias = rng.standard_normal(rows, dtype=np.float32)
        for leading in ([1], [2, 3]):
            x = rng.standard_normal((*leading, columns), dtype=np.float32)
            yield Challenge(plain | {"x": x, "count": False, "bias": bias}, decides=(self.BIAS,))
        x = rng.standard_normal((2, 3, columns), dtype=np.float32)
        yield Challenge(plain | {"x": x, "count": False, "dtype": "bfloat16"}, decides=(self.SHAPES,))
        wide = {"weight": _uneven(rng, rows=512, columns=1024), "bias": rng.standard_normal(512, dtype=np.float32)}
        x = rng.standard_normal((4, 1024), dtype=np.float32)
        yield Challenge(plain | wide | {"x": x, "count": True}, decides=(self.HELD,))

    @staticmethod
    def run(learner, challenge):
        import gc
        import weakref

        import torch

        from autograder import lab

        dtype = getattr(torch, challenge["dtype"])

        def float_layer():
            rows, columns = challenge["weight"].shape
            layer = torch.nn.Linear(columns, rows, bias=challenge["bias"] is not None, device="meta")
            put = {"weight": challenge["weight"], "bias": challenge["bias"]}
            given = {k: torch.as_tensor(v).to(lab.device(), dtype) for k, v in put.items() if v is not None}
            layer.load_state_dict({k: v.clone() for k, v in given.items()}, assign=True)
            return layer.requires_grad_(False)

        x = torch.as_tensor(challenge["x"]).to(lab.device(), dtype)
        before = lab.alive.storages() if challenge["count"] else {}
        linear = float_layer()
        weight = weakref.ref(linear.weight)
        layer = learner.Int8Linear.from_linear(linear)
        if not isinstance(layer, torch.nn.Module):
            return {"instead": layer}
        del linear
        with torch.inference_mode():
            if not challenge["count"]:
                return {"y": layer(x)}
            for rows in (x, x[:1], x, x[:1]):  # whatever many tokens or one may leave behind
                layer(rows)
            held = lab.alive.added(before)
            gc.collect()
            return {"y": layer(x), "held": held, "weight_alive": weight() is not None}

    def verify(self, challenge, answer):
        (rung,) = challenge.decides
        if "instead" in answer:
            complaint = f"from_linear returns the new layer, a nn.Module; you returned {describe(answer['instead'])}."
        else:
            complaint = self._why_output(challenge, answer["y"])
            if challenge["count"]:
                complaint = self._why_held(challenge, answer) or complaint
        yield Rung(rung, complaint is None, complaint or "")

    @staticmethod
    def _why_output(challenge, y) -> str | None:
        weight, x = (_as_stored(challenge[name], challenge["dtype"]) for name in ("weight", "x"))
        product = x @ weight.T
        bias = challenge["bias"]
        expected = product if bias is None else product + _as_stored(bias, challenge["dtype"])
        given = _floats(y)
        told = f"x {list(x.shape)} in {challenge['dtype']}, {weight.shape[1]} inputs, {weight.shape[0]} outputs: "
        if given is None or given.shape != expected.shape:
            return f"{told}y has shape {list(expected.shape)}; you returned {describe(y)}."
        if challenge["dtype"] not in str(y.dtype):
            return f"{told}y comes in x's dtype, as from nn.Linear; yours is {describe(y)}."
        # rounding to half a step leaves an error of step / sqrt(12) per weight; a hundredth is three times more
        if _relative(given, expected) <= 0.02:
            return None
        if bias is not None and _relative(given, product) <= 0.02:
            return f"{told}that is the product without the bias, which the layer had."
        if not np.isfinite(given).all():
            return f"{told}there is a nan or an infinity in y."
        return f"{told}y is off by {_relative(given, expected):.0%}; eight bits explain about 1%."

    @staticmethod
    def _why_held(challenge, answer) -> str | None:
        rows, columns = challenge["weight"].shape
        weights, held = rows * columns, answer["held"]
        allowed = weights + 8 * rows + challenge["bias"].nbytes
        if answer["weight_alive"]:
            return (
                "the float weight is still alive, though nobody but your layer knows it: through an attribute, a list, "
                f"a closure or a cache. In all {held / weights:.2f} bytes per weight are held."
            )
        if held < 0.99 * weights:
            return (
                f"only {held / weights:.2f} bytes per weight are found in tensors and arrays; int8 takes one. Keep the "
                "codes and the scales as tensors of the layer (`register_buffer`)."
            )
        if held <= 1.01 * allowed + 1024:
            return None
        why = f"{held / weights:.2f} bytes per weight are held; {allowed / weights:.2f} are allowed."
        if held >= 5 * weights:
            return f"{why} The int8 codes are there, and a float copy that was made of them or kept beside them."
        if held >= 4 * weights:
            return f"{why} Whole numbers in a float32 are still four bytes each: what is the dtype of what you keep?"
        return why

    workloads = ({"layers": 4}, {"layers": 64}, {"layers": 1024})
    SIZE, DISTINCT, TOKENS = 4096, 24, 256

    def timed_challenge(self, rng, workload):
        """256 tokens through so many layers, one into the next, from a set that is made before time is taken."""
        import torch

        from autograder import lab

        dtype = str(lab.machine_card().dtype).removeprefix("torch.")
        x = torch.from_numpy(rng.standard_normal((self.TOKENS, self.SIZE), dtype=np.float32))
        return Challenge(
            {
                "seed": _pool_seed(),
                "size": self.SIZE,
                "distinct": self.DISTINCT,
                "order": rng.integers(self.DISTINCT, size=workload["layers"]).tolist(),
                "dtype": dtype,
                "x": x.to(getattr(torch, dtype)),
            }
        )

    @staticmethod
    def timed_run(learner, challenge):
        import torch

        from autograder import lab

        size, dtype = challenge["size"], getattr(torch, challenge["dtype"])

        def made():
            rng = torch.Generator(lab.device()).manual_seed(challenge["seed"])
            for _ in range(challenge["distinct"]):
                linear = torch.nn.Linear(size, size, bias=False, device="meta", dtype=dtype).requires_grad_(False)
                weight = torch.empty(size, size, dtype=dtype, device=lab.device())
                weight.uniform_(-1, 1, generator=rng).mul_((3 / size) ** 0.5)  # what comes out is as large as x
                linear.load_state_dict({"weight": weight}, assign=True)
                yield learner.Int8Linear.from_linear(linear)

        layers = lab.rotation.once(challenge["seed"], made)
        x = challenge["x"].to(lab.device())
        with torch.inference_mode():
            for i in challenge["order"]:
                x = layers[i](x)
        return x

    def agrees(self, challenge, answer, expected):
        given, expected = _floats(answer), _floats(expected)
        if given is None or given.shape != expected.shape:
            return f"{list(expected.shape)} is the shape of 256 tokens; this is {describe(answer)}"
        off, layers = _relative(given, expected), len(challenge["order"])
        if off <= 0.02 * math.sqrt(layers):
            return None
        return f"after {layers} layers, one into the next, the result is off by {off:.0%}"


class QuantizeModel(Exercise):
    """A model whose every linear layer holds int8, and nothing else of it has changed."""

    EVERY = "every linear layer holds int8, the head too, in models of several families"
    EMBEDDING = "the embeddings are what they were"
    BYTES = "no more bytes are held than that takes"
    QUALITY = "on the course's text the default model says nearly the same"

    name = "quantize_model"
    rungs: Mapping[str, float] = {EVERY: 1, EMBEDDING: 1, BYTES: 1, QUALITY: 1}
    seconds = 150.0
    memory_bytes = 6 << 30
    hints = (
        "Which modules of a model are linear layers, whatever they are called and however deep they lie? Print the "
        "types that `model.modules()` gives.",
        "A tied head and the embedding are two modules with one weight. Which of the two is multiplied, which is only "
        "looked up, and what happens to the second when you write into what they share?",
    )
    agreement, kl = 0.87, 0.05  # seen with a scale per row: 0.94 and 0.005; with one per matrix 0.78 and 0.08
    rounding = 1e-7  # nats; two runs of the same floats differ by less
    tokens = 192  # of each window of the text
    windows = 3
    positions = 24  # of each window whose whole distribution is compared
    rows = 64  # of the default model's embedding that are compared

    def challenges(self, rng):
        from autograder import lab

        structure = (self.EVERY, self.EMBEDDING, self.BYTES)
        for config in _families(rng):
            seed, ids = int(rng.integers(1 << 30)), rng.integers(200, size=(1, 6)).tolist()
            yield Challenge({"config": config, "seed": seed, "ids": ids}, decides=structure)
        ids = _evaluation_ids()
        starts = rng.choice(len(ids) // self.tokens, size=self.windows, replace=False) * self.tokens
        windows = [ids[start : start + self.tokens] for start in starts]
        seen = [sorted(rng.choice(self.tokens, size=self.positions, replace=False).tolist()) for _ in windows]
        rows = rng.choice(lab.config().vocab_size, size=self.rows, replace=False).tolist()
        data = {"config": None, "windows": windows, "positions": seen, "rows": rows}
        yield Challenge(data, decides=(self.QUALITY, *structure))

    @staticmethod
    def run(learner, challenge):
        import copy

        import torch

        from autograder import lab

        def quantized(float_model):
            """(the model, what is to be seen of how it is made)"""
            before = lab.alive.storages()
            model = float_model()
            given = learner.quantize_model(model)
            instead = None if isinstance(given, torch.nn.Module) else [given]
            model = model if instead else given
            del given
            floats = [
                name
                for name, module in model.named_modules()
                if isinstance(module, torch.nn.Linear) and module.weight.is_floating_point()
            ]
            table = getattr(model.get_input_embeddings(), "weight", None)
            held = lab.alive.added(before)
            return model, {"instead": instead, "floats": floats, "table": table, "held": held}

        if challenge["config"] is None:
            original = lab.load_model(dtype=torch.float32)
            model, made = quantized(lambda: copy.deepcopy(original))
            if len(getattr(made["table"], "shape", ())) == 2 and len(made["table"]) > max(challenge["rows"]):
                made["table"] = made["table"][challenge["rows"]]
            best, logits = [], []
            with torch.inference_mode():
                for window, positions in zip(challenge["windows"], challenge["positions"], strict=True):
                    every = lab.forward(model, torch.tensor([window], device=lab.device()), keep=0)[0]  # [T, V]
                    best.append(every.argmax(dim=-1))
                    logits.append(every[positions].float())
            return made | {"best": best, "logits": logits}

        model, made = quantized(lambda: lab.models.random_model(challenge["config"], seed=challenge["seed"]))
        with torch.inference_mode():
            logits = lab.forward(model, torch.tensor(challenge["ids"], device=lab.device()), keep=0)
        return made | {"logits": logits}

    def verify(self, challenge, answer):
        if challenge["config"] is None:
            complaint = self._why_words(challenge, answer)
            yield Rung(self.QUALITY, complaint is None, complaint or "")
        expected = _Original.of(challenge)
        whose = "the default" if challenge["config"] is None else f"a {expected.family}"
        told = f"{whose} model, {'tied' if expected.tied else 'untied'}: "
        for rung, complaint in (
            (self.EVERY, self._why_not_all(expected, answer)),
            (self.EMBEDDING, self._why_untouched(expected, answer) or self._why_table(expected, answer["table"])),
            (self.BYTES, self._why_bytes(expected, answer["held"])),
        ):
            yield Rung(rung, complaint is None, told + (complaint or ""))

    @staticmethod
    def _why_not_all(expected: _Original, answer) -> str | None:
        left, layers = answer["floats"], expected.linears
        if not left and answer["instead"]:
            return f"the layers hold int8; return the model, too: you returned {describe(answer['instead'][0])}."
        if not left and expected.logits is None:
            return None
        if not left:
            off = _relative(_or_nan(answer["logits"], expected.logits), expected.logits)
            if off <= 0.2:
                return None
            return (
                f"nothing float is left, but the logits are off by {off:.0%} of their size, and eight bits explain "
                "about 5%. Was something else changed, or a bias lost?"
            )
        if left == [expected.head]:
            return f"`{expected.head}` is still float: the head is a linear layer too, and the largest."
        why = f"{len(left)} of {len(layers)} linear layers are still float, `{left[0]}` among them."
        if expected.default:
            return f"{why} Does your code take a large model otherwise than a small one?"
        if expected.family == "llama":
            return f"{why} How deep does your search go?"
        names = ", ".join(sorted({name.rsplit(".", 1)[-1] for name in layers}))
        return f"{why} Families name their layers differently (here {names}); their type is the same."

    @staticmethod
    def _why_untouched(expected: _Original, answer) -> str | None:
        """An embedding that is tied to the head has been in no danger while nothing is rounded."""
        if expected.tied and answer["floats"] == expected.linears:
            return "no layer holds int8 yet: the embedding shows nothing before the head that shares it is rounded."
        return None

    @staticmethod
    def _why_table(expected: _Original, table) -> str | None:
        given = _floats(table)
        if given is None or given.shape != expected.table.shape:
            return f"the input embedding is a float table {list(expected.table.shape)}; it is {describe(table)} now."
        if np.array_equal(given, expected.table):
            return None
        return (
            "the embedding's numbers have changed. "
            + ("Head and embedding share one weight: whoever rounds it in place rounds both. " if expected.tied else "")
            + "A lookup reads one row per token, so there is nothing to gain there."
        )

    @staticmethod
    def _why_bytes(expected: _Original, held) -> str | None:
        if held < expected.weights:
            return (
                f"only {held:,} bytes are found in tensors and arrays, and {expected.weights:,} codes are to be kept: "
                "where are they?"
            )
        if held <= 1.03 * expected.bytes + 2048:
            return None
        why = f"{held:,} bytes are held, {expected.bytes:,} would do (the original held {expected.bytes_before:,})."
        if held >= expected.bytes_before:
            return f"{why} That is the float model, or it and another: who still holds the old weights?"
        return why

    def _why_words(self, challenge, answer) -> str | None:
        agreement, kl = _agreement(challenge, answer)
        if kl < self.rounding:
            return "the model says exactly what it said before, and eight bits would show: was anything rounded?"
        if agreement >= self.agreement and kl <= self.kl:
            return None
        return (
            f"at {agreement:.0%} of the positions the likeliest token is the original's, and the distributions differ "
            f"by {kl:.2g} nats. Eight bits with a scale per row keep {self.agreement:.0%} and more, and stay below "
            f"{self.kl:g}. Do the layers compute what they did, each row with its own scale?"
        )


class _Original:
    """The float model of one challenge as the judge sees it."""

    def __init__(self, model, *, rows: list | None = None, ids: list | None = None) -> None:
        """rows: of the embedding that are looked at, or all; ids [B, T]: what the logits are of, or none are made."""
        import torch

        from autograder import lab

        linear = {name: m for name, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
        self.default = rows is not None
        self.family = model.config.model_type
        self.linears = list(linear)
        self.head = next(name for name, m in linear.items() if m is model.get_output_embeddings())
        table = model.get_input_embeddings().weight
        self.tied = model.get_output_embeddings().weight is table
        self.table = _floats(table.detach() if rows is None else table.detach()[rows])
        self.logits = None
        if ids:
            with torch.inference_mode():
                self.logits = _floats(lab.forward(model, torch.tensor(ids, device=lab.device()), keep=0))
        self.bytes_before = sum(w.nbytes for w in model.parameters()) + sum(b.nbytes for b in model.buffers())
        self.weights = sum(m.weight.numel() for m in linear.values())
        codes = self.weights + 8 * sum(m.weight.shape[0] for m in linear.values())
        gone = sum(m.weight.nbytes for m in linear.values() if m.weight is not table)
        self.bytes = self.bytes_before - gone + codes

    @classmethod
    def of(cls, challenge) -> _Original:
        import torch

        from autograder import lab

        if challenge["config"] is None:
            return cls(lab.load_model(dtype=torch.float32), rows=challenge["rows"])
        return cls(lab.models.random_model(challenge["config"], seed=challenge["seed"]), ids=challenge["ids"])


def _families(rng) -> list[dict]:
    """Small models of three families: what AutoConfig.for_model takes."""
    heads, hidden = 4, 64
    shape = {"vocab_size": 211, "hidden_size": hidden, "num_hidden_layers": 2, "num_attention_heads": heads}
    gated = shape | {"intermediate_size": int(rng.integers(5, 8)) * 16, "num_key_value_heads": 2}
    return [
        gated | {"model_type": "llama", "head_dim": 24, "tie_word_embeddings": False},
        gated | {"model_type": "qwen2", "tie_word_embeddings": True},
        shape | {"model_type": "gpt_neox", "intermediate_size": 128, "tie_word_embeddings": False},
    ]


@cache
def _evaluation_ids() -> list[int]:
    """The course's text in tokens of the default model; random ones where a shape without a tokenizer stands in."""
    from autograder import lab

    try:
        return lab.evaluation_ids(lab.load_tokenizer())[0].tolist()
    except lab.LabError:
        return np.random.default_rng(0).integers(lab.config().vocab_size, size=4000).tolist()


def _agreement(challenge, answer) -> tuple[float, float]:
    """(share of positions with the original's likeliest token, mean KL in nats) on the text's windows."""
    import torch

    from autograder import lab

    model = lab.load_model(dtype=torch.float32)
    same, kls = [], []
    given = zip(challenge["windows"], challenge["positions"], answer["best"], answer["logits"], strict=True)
    for window, positions, best, logits in given:
        with torch.inference_mode():
            every = lab.forward(model, torch.tensor([window], device=lab.device()), keep=0)[0].cpu()  # [T, V]
            same.append((best == every.argmax(dim=-1)).float().mean().item())
            right, other = (x.double().log_softmax(dim=-1) for x in (every[positions], logits))
            kls.append((right.exp() * (right - other)).sum(dim=-1).mean().item())
    return float(np.mean(same)), float(np.mean(kls))


def _floats(value: Any) -> np.ndarray | None:
    """A tensor or array of real numbers in float64, or None."""
    if not hasattr(value, "shape") or "float" not in str(value.dtype):
        return None
    return value.double().cpu().numpy() if hasattr(value, "detach") else value.astype(np.float64)


def _or_nan(value: Any, like: np.ndarray) -> np.ndarray:
    given = _floats(value)
    return np.full_like(like, np.nan) if given is None or given.shape != like.shape else given


class SpeedupBound(Exercise):
    """How much faster a decode step can become when its bytes shrink and the rest of it stays."""

    BYTES = "with no overhead: the ratio of the bytes"
    OVERHEAD = "what is not reading stays as it was"

    name = "speedup_bound"
    rungs: Mapping[str, float] = {BYTES: 1, OVERHEAD: 1}
    hints = (
        "A step takes 10 ms, of which 6 are the reading of weights. Half the bytes: how long does it take then?",
        "Which part of a step's time depends on the bytes, which does not, and in which of the two steps (before and "
        "after) is the second part there?",
    )

    def challenges(self, rng):
        yield Challenge(self._asked(rng, overhead=0.0), decides=(self.BYTES,))
        for share in (1.2, 0.25, 40.0):  # between the two readings, below both, above both
            yield Challenge(self._asked(rng, overhead=share), decides=(self.OVERHEAD,))

    @staticmethod
    def _asked(rng, *, overhead: float) -> dict:
        """Options with an overhead of about so many times the seconds of the bytes after."""
        before = int(rng.integers(200, 900)) * 1_000_000
        after = int(before / rng.uniform(1.8, 3.9))
        bandwidth = float(rng.uniform(20e9, 200e9))
        seconds = overhead * after / bandwidth * float(rng.uniform(0.9, 1.1))
        return {"before": before, "after": after, "overhead_s": seconds, "bandwidth": bandwidth}

    @staticmethod
    def run(learner, challenge):
        options = {"overhead_s": challenge["overhead_s"], "bandwidth": challenge["bandwidth"]}
        return learner.speedup_bound(challenge["before"], challenge["after"], **options)

    def verify(self, challenge, answer):
        (rung,) = challenge.decides
        yield Rung(rung, close(answer, _bound(challenge), relative=0.005), self._why(challenge, answer))

    @staticmethod
    def _why(challenge, answer) -> str:
        expected, given = _bound(challenge), number(answer)
        why = (
            f"{challenge['before'] / 1e6:.0f} MB before, {challenge['after'] / 1e6:.0f} MB after, "
            f"{challenge['overhead_s'] * 1e3:.3g} ms of overhead, {challenge['bandwidth'] / 1e9:.3g} GB/s: you gave "
            f"{describe(answer)}, expected {expected:.4g}."
        )
        for mistake, meaning in BOUND_MISTAKES.items():
            value = _bound(challenge, mistake)
            if given is not None and close(given, value, relative=0.002) and not close(value, expected, relative=0.01):
                return f"{why} {meaning}"
        return why


BOUND_MISTAKES = {
    "bytes alone": "That is the ratio of the bytes, as if a step did nothing but read.",
    "inverted": "That is the new time over the old one; a speedup is the old over the new.",
    "before only": "The overhead is in the old step alone; the new one makes the same calls.",
    "after only": "The overhead is in the new step alone; the old one made the same calls.",
    "larger": "That takes the larger of reading and overhead; the one comes after the other, so they add up.",
    "seconds saved": "Those are the seconds that are saved; a speedup is a ratio of times.",
}


def _bound(challenge, mistake: str = "") -> float:
    """Predicted speedup; `mistake` names one that is made on purpose."""
    before, after = (challenge[name] / challenge["bandwidth"] for name in ("before", "after"))
    overhead = challenge["overhead_s"]
    old = before + (0 if mistake in ("bytes alone", "after only") else overhead)
    new = after + (0 if mistake in ("bytes alone", "before only") else overhead)
    larger = max(before, overhead) / max(after, overhead)
    return {"inverted": new / old, "larger": larger, "seconds saved": old - new}.get(mistake, old / new)


FASTER, SAME, LITTLE, MUCH = "faster", "about the same", "a little slower", "much slower"


class WhenItHelps(Exercise):
    """Three ways with an int8 weight of 4096 x 4096 against a bfloat16 product, at 1 and at 256 tokens, at the floor.

    50e9 bytes/s and 1e12 operations/s. bfloat16: 33.6 MB take 0.67 ms, 256 tokens' 8.6e9 operations 8.6 ms. Dequantize
    first: 3 bytes per weight for the copy, 1.0 ms, and then all of the product. Fused loop: 0.34 ms for each token.
    Packed kernel: 0.34 ms for one token, the same 8.6 ms for 256.
    """

    name = "WHEN_IT_HELPS"
    quiz_points = 2
    allowed = (FASTER, SAME, LITTLE, MUCH)
    key: Mapping[str, tuple[str, str]] | None = {
        "dequantize first": (MUCH, LITTLE),
        "fused loop": (FASTER, MUCH),
        "packed kernel": (FASTER, SAME),
    }
    hints = (
        "How many bytes move per weight in each way, and how often? How many milliseconds is that at 50e9 bytes/s?",
        "How many operations do 256 tokens need, and how long do they take? What does each way have to do besides, "
        "once for all tokens or once for each?",
    )


WHY_WEIGHT_ONLY_HELPS = MarkScheme(
    "why_weight_only_helps",
    points=(
        SchemePoint(
            "At one token every weight is read for two operations, so the time is that of the bytes, and fewer bytes "
            "are less time.",
            earns="A decode step uses each weight once, for one multiplication and one addition, and waits for it to "
            "come from memory; a byte instead of two comes in half the time.",
            does_not="Decode is memory-bound, so quantization makes it faster.",
        ),
        SchemePoint(
            "Only if the floats never go through memory: unpacked inside the product. A float copy that is made first "
            "is written and read as well, more bytes than before.",
            earns="The codes must become floats in the registers: dequantizing first reads one byte, writes two and "
            "reads two again, which took 20 ms here instead of 1.7.",
            does_not="It has to be done with a good kernel, otherwise it is slow.",
        ),
        SchemePoint(
            "With many tokens (a long prompt, a large batch) arithmetic sets the time, and it is still done in floats: "
            "the same operations, and the unpacking on top.",
            earns="In prefill each weight is used for all 256 tokens, so the multiplications take the time, and "
            "weight-only quantization multiplies in bfloat16 as before and unpacks besides.",
            does_not="In prefill it does not help because prefill is compute-bound.",
        ),
        SchemePoint(
            "A step gains less than the ratio of the bytes: calls, attention and cache stay. A number for it.",
            earns="My step has 11 ms that are no reading of weights: with 21 ms of reading before and half after it "
            "becomes 32 / 21.5 = 1.49 times as fast, not 2.",
            does_not="In practice the speedup is smaller than the theoretical one because of overhead.",
        ),
        SchemePoint(
            "A decision: for which product they would quantize and for which not, with a number of their own "
            "(measured at 1 and at many tokens, bytes, or what the text lost).",
            earns="For a chat with one user I would: 4096 x 4096 took 0.8 instead of 1.7 ms at one token. For scoring "
            "long documents overnight I would not: 256 tokens took 25 instead of 6.",
            does_not="I would use it for chat applications, because there speed matters most.",
        ),
    ),
    samples=(
        Sample(
            "To make one token, every weight is read and used for one multiplication and one addition; the "
            "processor waits for memory, so one byte per weight instead of two can halve the time. That holds "
            "only while the floats stay in registers: when I dequantized first, a copy was written and read back, "
            "five bytes or more per weight instead of two, and 4096 x 4096 took 20 ms instead of 1.7. Unpacked "
            "inside the product: 0.8. With 256 tokens each weight is used 256 times; the same bfloat16 "
            "multiplications have to be done, plus unpacking, and mine took 25 ms instead of 6. A whole step "
            "gains less than the bytes: 11 ms of mine are calls and attention, so halving 21 ms of reading gives "
            "32 / 21.5 = 1.49x. I would quantize a chat for one user, where decode is most of the time, and not a "
            "service that only reads long documents.",
            awarded=(True, True, True, True, True),
            why="Each claim has its cause, the speedup is computed with what stays, and the decision rests on two "
            "measured times.",
        ),
        Sample(
            "Weight-only quantization helps because decode is memory-bound and int8 weights are four times smaller "
            "than float32, so four times fewer bytes have to be loaded. It is important to use a fused kernel, since "
            "with a separate dequantization the float weights are written to memory and read again, which is slower "
            "than not quantizing at all (in my measurement 20 ms against 1.7 ms). For large batches or long prompts "
            "it does not help since these are compute-bound. Due to overhead the real speedup is below four. I would "
            "use it for chatbots, which mostly decode: there my product became 2.1 times faster.",
            awarded=(False, True, False, False, True),
            why="1: a term without its cause; nothing says how often a weight is used. 3: 'compute-bound' alone, and "
            "that the arithmetic stays in floats is missing. 4: no number. 5: a decision with a number, for one case "
            "and, in the sentence before, against the other.",
        ),
    ),
)

CHAPTER = Chapter(
    "04_quantize_weights",
    "Quantize weights",
    exercises=(
        QuantizeInt8(),
        Int8Matvec(),
        Int8Linear(),
        QuantizeModel(),
        SpeedupBound(),
        WhenItHelps(),
    ),
    written=(WHY_WEIGHT_ONLY_HELPS,),
)
