"""Chapter 02: what the bottleneck is, and how fast a model could possibly generate on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import mean, median
from typing import Any

from autograder.chapters.devices import LAUNCH_SECONDS, VirtualDevice
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

SECONDS = 60.0  # of one check: on a busy machine the judge's own import of transformers takes half of it
OWN_CHECK = "If you call functions of yours in it, do they pass their own checks?"
HIDDEN_SIZE_IN_ATTENTION = (
    "Attention has the hidden size in it, but its heads together are num_attention_heads x head size wide: here that "
    "is another number."
)
SIZES = (0.5625, 1.0625, 4.0)  # bytes per number: 4 or 8 bits with a scale per group, float32; none is 1 or 2
GEOMETRY = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "tie_word_embeddings",
)


@dataclass(frozen=True)
class Shape:
    """A model's geometry, and what it costs by formula: weights in matrices, operations, numbers in the cache.

    L layers, E hidden size, H query heads, K key/value heads, D head size, F width of the MLP, V vocabulary.
    The formulas are there to recognise mistakes; what is right is counted on a real model without its numbers.
    """

    family: str  # transformers' model_type
    L: int
    E: int
    H: int
    K: int
    D: int
    F: int
    V: int
    tied: bool

    @staticmethod
    def of(config: Mapping[str, Any]) -> Shape:
        """The shape of a challenge's plain config."""
        vocabulary, hidden, mlp, layers, heads, kv_heads, tied = (config[field] for field in GEOMETRY)
        head_size = config.get("head_dim") or hidden // heads
        return Shape(config["model_type"], layers, hidden, heads, kv_heads, head_size, mlp, vocabulary, tied)

    @property
    def layer(self) -> int:
        """Weights in one layer's seven matrices."""
        return 2 * self.E * self.D * (self.H + self.K) + 3 * self.E * self.F

    @property
    def table(self) -> int:
        """Weights in the head, and in the input embedding."""
        return self.V * self.E

    @property
    def kv_numbers(self) -> int:
        """Numbers in the cache per token."""
        return 2 * self.L * self.K * self.D

    @property
    def head_size_by_division(self) -> Shape:
        """The same with the head size that nobody wrote down."""
        return replace(self, D=self.E // self.H)

    def __str__(self) -> str:
        tied = "head tied to the input embedding" if self.tied else "head not tied"
        return (
            f"a {self.family} model ({self.L} layers, hidden size {self.E}, {self.H} heads of {self.D}, {self.K} of "
            f"them with keys and values, MLP {self.F}, vocabulary {self.V}, {tied})"
        )


def _plain(config) -> dict[str, Any]:
    """A transformers config as the plain data that travels; `AutoConfig.for_model` makes it a config again."""
    head_size = {"head_dim": config.head_dim} if getattr(config, "head_dim", None) else {}
    return {"model_type": config.model_type} | {field: getattr(config, field) for field in GEOMETRY} | head_size


def _published(name: str) -> dict[str, Any]:
    from autograder import lab

    return _plain(lab.ceilings().models[name])


def _made_up(rng, family: str, *, vocabulary: int, tied: bool = False, grouped: bool = True) -> dict[str, Any]:
    """A model nobody has published: 3 to 6 layers; a qwen3 has heads of another size than hidden size / heads."""
    kv_heads, head_size = int(rng.integers(4, 7)), int(rng.choice([96, 112, 128]))
    heads = kv_heads * (int(rng.integers(3, 6)) if grouped else 1)
    hidden = heads * head_size if family != "qwen3" else heads * head_size * int(rng.choice([2, 3])) // 4
    hidden = hidden if grouped else hidden * 4
    config = {
        "model_type": family,
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": 32 * int(hidden * rng.uniform(2.5, 3.8) / 32),
        "num_hidden_layers": int(rng.integers(3, 7)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "tie_word_embeddings": tied,
    }
    return config | ({} if family == "qwen2" else {"head_dim": head_size})


def _sizes(rng) -> list[float]:
    """SIZES in any order: no rung is decided by one of them alone, which somebody may have written down."""
    return rng.permutation(SIZES).tolist()


def _on_meta(config: Mapping[str, Any]):
    """The model with shapes and without numbers."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    plain = dict(config)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(
            AutoConfig.for_model(plain.pop("model_type"), **plain), dtype=torch.float32
        )


def _weights_read(config: Mapping[str, Any]) -> int:
    """Weights that one decode step reads, counted on the real model."""
    from autograder import lab

    return lab.weight_bytes(_on_meta(config)) // 4


def _amount(value: float) -> str:
    """A number of bytes or operations in four digits: 15.01e9, 512.3e6, 24,576."""
    for power in (18, 15, 12, 9, 6):
        if abs(value) >= 10**power:
            return f"{value / 10**power:.4g}e{power}"
    return f"{value:,.0f}"


def _given(value: Any) -> str:
    as_number = number(value)
    return describe(value) if as_number is None else _amount(as_number)


def _recognised(value: Any, expected: float, mistakes: Mapping[str, float], *, within: float = 4e-3) -> str:
    """The mistake whose value this is, the nearest of them, and is not the expected one; else ''."""
    near = {
        why: abs(number(value) - mistaken)
        for why, mistaken in mistakes.items()
        if close(value, mistaken, relative=within) and not close(mistaken, expected, relative=within)
    }
    return f" {min(near, key=near.get)}" if near else ""


class DecodeWeightBytes(Exercise):
    """Bytes of weights a decode step reads: every parameter, an input embedding only where it is also the head."""

    TIED = "a head tied to the input embedding is read, once"
    UNTIED = "an input embedding of its own is only looked up"
    LAYERS = "the layers' matrices, in Llama, Qwen2 and Qwen3"

    name = "decode_weight_bytes"
    seconds = SECONDS
    rungs: Mapping[str, float] = {TIED: 1, UNTIED: 1, LAYERS: 1}
    hints = (
        "Follow one token through the model, with the map of the lesson beside you. Which matrices is it multiplied "
        "with, and of which does it only take one row?",
        "What is the shape of each of the seven matrices, and which of its two sides is the hidden size? Where does "
        "the config say how large a head is, and what if it says nothing?",
    )

    def challenges(self, rng):
        def made_up(tied: bool) -> dict[str, Any]:
            return _made_up(rng, "llama", vocabulary=int(rng.integers(3e4, 9e4)), tied=tied)

        of_layers = [_made_up(rng, family, vocabulary=32) for family in ("llama", "qwen2", "qwen3")]  # hardly a table
        for rung, configs in (
            (self.TIED, [_published("Llama-3.2-1B"), made_up(True)]),
            (self.UNTIED, [_published("Llama-3.1-8B"), made_up(False)]),
            (self.LAYERS, of_layers),
        ):
            for config, size in zip(configs, _sizes(rng), strict=False):
                yield Challenge({"config": config, "bytes_per_weight": size}, decides=(rung,))

    @staticmethod
    def run(learner, challenge):
        from transformers import AutoConfig

        plain = dict(challenge["config"])
        config = AutoConfig.for_model(plain.pop("model_type"), **plain)
        return learner.decode_weight_bytes(config, challenge["bytes_per_weight"])

    def verify(self, challenge, answer):
        (rung,), per_weight = challenge.decides, challenge["bytes_per_weight"]
        shape, expected = Shape.of(challenge["config"]), _weights_read(challenge["config"]) * per_weight
        told = (
            f"For {shape} at {per_weight:g} bytes per weight you gave {_given(answer)}, expected {_amount(expected)}."
        )
        ok = close(answer, expected, relative=5e-3)
        yield Rung(rung, ok, told + _recognised(answer, expected, self._mistakes(shape, expected, per_weight)))

    @staticmethod
    def _mistakes(shape: Shape, expected: float, per_weight: float) -> dict[str, float]:
        table = shape.table * per_weight
        layers = {
            "That has two matrices in the MLP: count them on the map, there are three matrices.": -shape.E * shape.F,
            "That gives keys and values as many heads as the query: num_key_value_heads is the number of key/value "
            "heads.": 2 * shape.E * shape.D * (shape.H - shape.K),
            "That takes hidden size / heads for the head size, but this config names a head size of its own.": (
                shape.head_size_by_division.layer - shape.layer
            ),
            "That leaves out the output matrix of attention.": -shape.E * shape.D * shape.H,
            "That is one layer and the head: how many layers does the token pass?": -(shape.L - 1)
            * shape.layer
            / shape.L,
        }
        head = {
            "That counts the table twice, but input embedding and head are one and the same here: read once.": table,
            "That leaves out the input embedding, but here it is the head as well (tie_word_embeddings): what is the "
            "last state multiplied with?": -table,
        }
        looked_up = {
            "That counts the input embedding. It is a table of its own here, only looked up: how many of its rows "
            "does one token need?": table,
            "That leaves out the head: what is the last state multiplied with?": -table,
        }
        ends = head if shape.tied else looked_up
        return {
            **{why: expected + less for why, less in ends.items()},
            **{why: expected + shape.L * less * per_weight for why, less in layers.items()},
            "That is the number of bits: a byte is eight of them.": expected * 8,
            "That is the number of weights: bytes_per_weight is not in it.": expected / per_weight,
        }


class KvBytesPerToken(Exercise):
    """Bytes that one token leaves in the cache: 2 x layers x key/value heads x head size x bytes per number."""

    HEADS = "keys and values of every layer, for the key/value heads"
    SIZE = "each head of the size that the config names"

    name = "kv_bytes_per_token"
    seconds = SECONDS
    rungs: Mapping[str, float] = {HEADS: 1, SIZE: 1}
    hints = (
        "What does attention still need of a token when that token is long past? Which of the map's seven matrices "
        "make it?",
        "In how many layers is it kept, for how many heads of what size, and how many numbers of each kind?",
    )

    def challenges(self, rng):
        of_size = [_made_up(rng, family, vocabulary=1000, grouped=False) for family in ("qwen2", "qwen3")]
        for rung, configs in (
            (self.HEADS, [_published("Llama-3.1-8B"), _made_up(rng, "llama", vocabulary=1000)]),
            (self.SIZE, of_size),
        ):
            for config, size in zip(configs, _sizes(rng), strict=False):
                yield Challenge({"config": config, "bytes_per_kv": size}, decides=(rung,))

    @staticmethod
    def run(learner, challenge):
        from transformers import AutoConfig

        plain = dict(challenge["config"])
        config = AutoConfig.for_model(plain.pop("model_type"), **plain)
        return learner.kv_bytes_per_token(config, challenge["bytes_per_kv"])

    def verify(self, challenge, answer):
        (rung,), shape, per_kv = challenge.decides, Shape.of(challenge["config"]), challenge["bytes_per_kv"]
        expected = shape.kv_numbers * per_kv
        told = f"For {shape} at {per_kv:g} bytes per number you gave {_given(answer)}, expected {_amount(expected)}."
        yield Rung(rung, close(answer, expected), told + _recognised(answer, expected, self._mistakes(shape, per_kv)))

    @staticmethod
    def _mistakes(shape: Shape, per_kv: float) -> dict[str, float]:
        expected = shape.kv_numbers * per_kv
        return {
            "That takes hidden size / heads for the head size, but this config names a head size of its "
            "own.": shape.head_size_by_division.kv_numbers * per_kv,
            "That is for every query head. Several of them share one head of keys and values: how many are "
            "those?": expected * shape.H / shape.K,
            "That is a whole hidden state each. Several query heads share one head of keys and values.": 2
            * shape.L
            * shape.E
            * per_kv,
            "That is half: attention needs keys and values.": expected / 2,
            "That is one layer's: every layer keeps its own.": expected / shape.L,
            "That is one head's: each key/value head keeps its own.": expected / shape.K,
            "That is the count of numbers: bytes_per_kv is not in it.": shape.kv_numbers,
            "That is the number of bits: a byte is eight of them.": expected * 8,
        }


class PrefillFlops(Exercise):
    """Operations of one prefill into an empty cache, two per multiply-add, as torch's own counter counts them.

    2 x layers' weights x T for the matrices, 2 V E for the head at one position, 4 L H D T^2 for attention.
    """

    PRODUCTS = "two operations per token and weight of the layers"
    HEAD = "the head works for one position"
    ATTENTION = "attention is the full square of tokens by tokens"

    name = "prefill_flops"
    seconds = SECONDS
    rungs: Mapping[str, float] = {PRODUCTS: 2, HEAD: 1, ATTENTION: 1}
    hints = (
        "A product of a matrix [O, E] with one token's vector [E]: how many multiplications, how many additions? And "
        "with the vectors of T tokens?",
        "Attention multiplies twice, with no weight taking part: which two products are these, over which sizes, and "
        "in how many heads and layers? And at how many positions does prefill need a next word?",
    )

    def challenges(self, rng):
        for family in ("llama", "qwen2", "qwen3"):
            config = _made_up(rng, family, vocabulary=32)
            yield self._challenge(config, int(rng.integers(8, 16)), self.PRODUCTS)
        config = _made_up(rng, "llama", vocabulary=int(rng.integers(9e4, 15e4)), tied=True)
        yield self._challenge(config, int(rng.integers(6, 12)), self.HEAD)
        for family in ("llama", "qwen3"):  # all heads together as wide as the hidden state, and wider
            config = _made_up(rng, family, vocabulary=32)
            shape = Shape.of(config)  # attention's share of all operations is between 40 and 60%
            tokens = rng.uniform(0.7, 1.4) * shape.layer / (2 * shape.H * shape.D)
            yield self._challenge(config, int(tokens), self.ATTENTION)

    @staticmethod
    def _challenge(config, tokens, rung) -> Challenge:
        return Challenge({"config": config, "tokens": tokens}, decides=(rung,))

    @staticmethod
    def run(learner, challenge):
        from transformers import AutoConfig

        plain = dict(challenge["config"])
        config = AutoConfig.for_model(plain.pop("model_type"), **plain)
        return learner.prefill_flops(config, challenge["tokens"])

    def verify(self, challenge, answer):
        (rung,), tokens = challenge.decides, challenge["tokens"]
        shape, expected = Shape.of(challenge["config"]), _counted_flops(challenge["config"], tokens)
        told = f"For {shape} and {tokens} tokens you gave {_given(answer)}, torch counts {_amount(expected)}."
        mistakes = self._mistakes(shape, tokens, expected)
        ok = close(answer, expected, relative=2e-2)
        yield Rung(rung, ok, told + _recognised(answer, expected, mistakes, within=1e-2))

    @staticmethod
    def _mistakes(shape: Shape, tokens: int, expected: float) -> dict[str, float]:
        head, attention = 2 * shape.table, 4 * shape.L * shape.H * shape.D * tokens**2
        products = 2 * shape.L * shape.layer * tokens
        by_division = shape.head_size_by_division
        return {
            "That has the head at every token, but only one position is asked for its next word.": (
                expected + head * (tokens - 1)
            ),
            "That has the head at every token and once more: it is among the weights that a decode step reads, and at "
            "one position only it is asked for a next word.": expected + head * tokens,
            "The head is left out: at one position it does work.": expected - head,
            "That counts a multiply-add once; here it is two operations.": expected / 2,
            "That counts a multiply-add once in the products with weights; here it is two operations.": (
                products + head
            )
            / 2
            + attention,
            "Attention is not in it: two products in which no weight takes part.": expected - attention,
            HIDDEN_SIZE_IN_ATTENTION: expected + 4 * shape.L * (shape.E - shape.H * shape.D) * tokens**2,
            "Attention counts for half in it. Its convention here is torch's: the full square of tokens by tokens, "
            "and two products (the scores, then the sum over values), though a causal kernel may skip the "
            "future.": expected - attention / 2,
            "Attention is there for the key/value heads only: every query head does its own products.": expected
            - attention * (1 - shape.K / shape.H),
            "The layers' products are there for one token: every token of the prompt needs them.": expected
            - products * (1 - 1 / tokens),
            "That has one layer: the token passes all of them.": head + (products + attention) / shape.L,
            "That has two matrices in the MLP: the map shows three.": (
                expected - 2 * shape.L * shape.E * shape.F * tokens
            ),
            "That takes hidden size / heads for the head size, but this config names a head size of its own.": (
                expected
                + 2 * shape.L * (by_division.layer - shape.layer) * tokens
                + 4 * shape.L * shape.H * (by_division.D - shape.D) * tokens**2
            ),
        }


def _counted_flops(config: Mapping[str, Any], tokens: int) -> int:
    """What torch counts on the meta device, where it sees fused attention too, as the full square."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from autograder import lab

    model = _on_meta(config)
    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        lab.forward(model, ids, lab.new_cache(model))
    return counter.get_total_flops()


@dataclass(frozen=True)
class Step:
    """One decode step at the floor. Seconds; `weights` is the number of weights read."""

    shape: Shape
    weights: int
    bandwidth: float
    operations: float
    context: int
    bytes_per_weight: float
    bytes_per_kv: float
    batch: int = 1

    @staticmethod
    def of(challenge: Challenge) -> Step:
        config, batch = challenge["config"], challenge.data.get("batch", 1)
        return Step(
            Shape.of(config),
            _weights_read(config),
            *(challenge[key] for key in ("bandwidth", "operations", "context", "bytes_per_weight", "bytes_per_kv")),
            batch,
        )

    @property
    def reading_weights(self) -> float:
        return self.weights * self.bytes_per_weight / self.bandwidth

    @property
    def reading_one_cache(self) -> float:
        return self.context * self.shape.kv_numbers * self.bytes_per_kv / self.bandwidth

    @property
    def attending(self) -> float:
        """Attention's operations for one request."""
        return self.attending_over(self.shape.H * self.shape.D)

    def attending_over(self, width: int) -> float:
        """The same if all heads together were `width` wide."""
        return 4 * self.shape.L * width * self.context / self.operations

    @property
    def computing_one(self) -> float:
        """All operations for one request."""
        return 2 * self.weights / self.operations + self.attending

    @property
    def reading(self) -> float:
        return self.reading_weights + self.batch * self.reading_one_cache

    @property
    def computing(self) -> float:
        return self.batch * self.computing_one

    @property
    def floor(self) -> float:
        return max(self.reading, self.computing)

    @property
    def crossover(self) -> int | None:
        """The smallest batch whose operations take at least as long as its bytes."""
        gained = self.computing_one - self.reading_one_cache  # by which each request brings the two closer
        return None if gained <= 0 else max(1, ceil(self.reading_weights / gained))

    @property
    def with_matrices_only(self) -> Step:
        """The same without norms and biases, which a learner may leave out."""
        return replace(self, weights=self.shape.L * self.shape.layer + self.shape.table)

    def __str__(self) -> str:
        return (
            f"{self.shape}, {self.bytes_per_weight:g} bytes per weight, {self.bytes_per_kv:g} per number in the cache, "
            f"{self.bandwidth / 1e9:,.0f}e9 bytes/s, {_amount(self.operations)} operations/s, "
            f"context {self.context}"
        )


def _gpu(rng) -> dict[str, float]:
    """A published GPU's rates, moved a little so that nobody has seen them."""
    from autograder import lab

    gpus = list(lab.ceilings().gpus.values())
    gpu = gpus[int(rng.integers(len(gpus)))]
    return {"bandwidth": gpu.bandwidth * rng.uniform(0.8, 1.1), "operations": gpu.operations * rng.uniform(0.8, 1.1)}


class DecodeFloorSeconds(Exercise):
    """No decode step is quicker than its bytes at the bandwidth, nor than its operations at the rate."""

    ONE = "one request: all weights and its cache, at the bandwidth"
    BATCH = "a batch shares the weights, and each request brings its cache"
    COMPUTE = "many requests: operations, attention's among them"
    LARGER = "the larger of both times"

    name = "decode_floor_seconds"
    seconds = SECONDS
    rungs: Mapping[str, float] = {ONE: 1, BATCH: 1, COMPUTE: 1, LARGER: 1}
    hints = (
        "Two requests take a step together. What has to be read once, and what once for each of them? What is "
        "computed twice?",
        "A machine reads and computes at the same time. When both have work, which of the two do you wait for?",
    )

    def challenges(self, rng):
        # (bytes per weight, per cached number): far apart, and so that no exchange of the two gives the same sum
        yield self._memory_bound(rng, self.ONE, (4.0, 0.5625), batch=1)
        yield self._memory_bound(rng, self.BATCH, (0.5625, 1.0625), batch=int(rng.integers(6, 10)))
        few = int(rng.integers(2, 9))  # one token more is seen
        yield self._memory_bound(rng, self.BATCH, (0.5625, 4.0), context=few)
        yield self._compute_bound(rng)
        for share in (0.6, 1.6):  # of the crossover: operations take 0.6, then 1.6 times as long as bytes
            yield self._near_the_ridge(rng, share * rng.uniform(0.9, 1.1))

    def _memory_bound(self, rng, rung, sizes, *, batch=0, context=0) -> Challenge:
        """A GPU, and of batch and context the other, such that all caches are a third to two thirds of the weights."""
        config = _made_up(rng, str(rng.choice(["llama", "qwen3"])), vocabulary=int(rng.integers(1e4, 3e4)))
        shape, (bytes_per_weight, bytes_per_kv) = Shape.of(config), sizes
        weights = (shape.L * shape.layer + shape.table) * bytes_per_weight
        tokens = rng.uniform(0.33, 0.66) * weights / (shape.kv_numbers * bytes_per_kv)  # in all caches
        batch, context = batch or int(tokens / context), context or int(tokens / batch)
        return self._challenge(config, _fast(_gpu(rng)), context, batch, bytes_per_weight, bytes_per_kv, rung)

    def _compute_bound(self, rng) -> Challenge:
        """Two cores of a CPU, on which attention's operations take longer than reading its cache.

        All heads together are wider than the hidden state.
        """
        config = _made_up(rng, "qwen3", vocabulary=int(rng.integers(1e4, 3e4)), tied=True)
        shape = Shape.of(config)
        machine = {"bandwidth": rng.uniform(60e9, 90e9), "operations": rng.uniform(90e9, 120e9)}
        context = int(rng.uniform(0.2, 0.3) * shape.layer / (2 * shape.H * shape.D))
        return self._challenge(config, machine, context, int(rng.integers(40, 80)), 0.5, 1.0, self.COMPUTE)

    def _near_the_ridge(self, rng, share) -> Challenge:
        config = _published(str(rng.choice(["Llama-3.2-1B", "Llama-3.1-8B", "Qwen3-8B"])))
        challenge = self._challenge(config, _gpu(rng), 1, 1, 2.0, 1.0, self.LARGER)
        challenge.data["batch"] = ceil(share * (Step.of(challenge).crossover or 1))
        return challenge

    @staticmethod
    def _challenge(config, machine, context, batch, bytes_per_weight, bytes_per_kv, rung) -> Challenge:
        sizes = {"bytes_per_weight": bytes_per_weight, "bytes_per_kv": bytes_per_kv}
        return Challenge({"config": config, "context": context, "batch": batch} | machine | sizes, decides=(rung,))

    @staticmethod
    def run(learner, challenge):
        from types import SimpleNamespace

        from transformers import AutoConfig

        plain = dict(challenge["config"])
        config = AutoConfig.for_model(plain.pop("model_type"), **plain)
        machine = SimpleNamespace(bandwidth=challenge["bandwidth"], operations=challenge["operations"])
        options = {key: challenge[key] for key in ("context", "batch", "bytes_per_weight", "bytes_per_kv")}
        return learner.decode_floor_seconds(config, machine, **options)

    def verify(self, challenge, answer):
        (rung,), step = challenge.decides, Step.of(challenge)
        told = (
            f"For {step}, batch {step.batch}: you gave {describe(answer)} s, expected {step.floor:.4g} s (reading "
            f"takes {step.reading:.4g}, computing {step.computing:.4g})."
        )
        ok = close(answer, step.floor, relative=1e-2)
        yield Rung(rung, ok, told + (_recognised(answer, step.floor, self._mistakes(step)) or f" {OWN_CHECK}"))

    @staticmethod
    def _mistakes(step: Step) -> dict[str, float]:
        def floor(reading: float = step.reading, computing: float = step.computing) -> float:
            return max(reading, computing)

        def sized(bytes_per_weight: float, bytes_per_kv: float) -> float:
            return replace(step, bytes_per_weight=bytes_per_weight, bytes_per_kv=bytes_per_kv).floor

        batch, weights, cache = step.batch, step.reading_weights, step.reading_one_cache
        per_weight, per_kv = step.bytes_per_weight, step.bytes_per_kv
        per_byte = batch * (2 * step.weights * step.bytes_per_weight / step.operations + step.attending)
        return {
            "That is the sum, but a machine reads and computes at the same time.": step.reading + step.computing,
            "That reads the weights once per request, but the requests of a batch share one reading.": floor(
                batch * (weights + cache)
            ),
            "That reads one cache for all requests, but each of them brings its own cache.": floor(weights + cache),
            "The cache is not in it: every key and value of the context is read as well.": floor(weights),
            "That is the time of the bytes, but here the operations take longer: each request needs its "
            "own.": step.reading,
            "That is the time of the operations, but here the bytes take longer.": step.computing,
            "The operations of attention are missing: 4 per layer, query head, head dimension and token "
            "attended.": floor(computing=step.computing - batch * step.attending),
            HIDDEN_SIZE_IN_ATTENTION: floor(
                computing=step.computing + batch * (step.attending_over(step.shape.E) - step.attending)
            ),
            "That attends to one token more than `context`, but the new one included is what it says.": replace(
                step, context=step.context + 1
            ).floor,
            "That has two operations per byte of weights, but operations are counted per weight, not per byte.": floor(
                computing=per_byte
            ),
            "That counts a multiply-add once; here it is two operations.": floor(computing=step.computing / 2),
            "That is the smaller of both times: which of them do you wait for?": min(step.reading, step.computing),
            "That reads the cache at bytes_per_weight; its numbers have bytes_per_kv.": sized(per_weight, per_weight),
            "That reads two bytes per number of the cache: bytes_per_kv says otherwise.": sized(per_weight, 2),
            "That reads two bytes per weight: bytes_per_weight says otherwise.": sized(2, per_kv),
            "That reads two bytes per number: bytes_per_weight and bytes_per_kv say otherwise.": sized(2, 2),
            "The two sizes are swapped: the weights have bytes_per_weight, the cache bytes_per_kv.": sized(
                per_kv, per_weight
            ),
        }


def _fast(machine: dict[str, float]) -> dict[str, float]:
    """The same machine with so much arithmetic that nothing waits for it."""
    return machine | {"operations": 1e7 * machine["bandwidth"]}


class CrossoverBatch(Exercise):
    """The smallest batch at which a decode step waits for arithmetic, or None. The whole step is one roofline.

    B requests wait for arithmetic when B c >= w + B k: c, k a request's seconds of arithmetic and of reading its
    cache, w the seconds of reading the weights. Overlap changes a step's time, not where the two are equal.
    """

    EMPTY = "without a cache: the weights' bytes against a request's operations"
    CACHE = "the caches move it further out"
    NEVER = "None where, and only where, the caches keep the step memory-bound forever"

    name = "crossover_batch"
    seconds = SECONDS
    rungs: Mapping[str, float] = {EMPTY: 1, CACHE: 2, NEVER: 1}
    hints = (
        "Let the batch grow by one. How many seconds of arithmetic does the new request bring, how many of reading? "
        "And which reading was there before anybody came?",
        "Write 'operations take at least as long as bytes' as an inequality in the batch and solve it. When is there "
        "no solution?",
    )

    def challenges(self, rng):
        for bytes_per_weight in (1.0, 2.0):
            yield self._challenge(self._model(rng), _gpu(rng), 0, (bytes_per_weight, 0.5625), self.EMPTY)
        # (bytes per weight, per cached number): of the second none is like the first, and not all are alike
        for share, sizes in ((0.65, (1.0, 4.0)), (0.5, (2.0, 0.5625))):
            yield self._at_share_of_never(rng, share * rng.uniform(0.9, 1.0), sizes, self.CACHE)
        wide = _published("Qwen3-0.6B") | {"num_key_value_heads": 4}  # query heads 2048 wide, hidden 1024, keys 512
        yield self._at_share_of_never(rng, 0.8, (2.0, 1.0625), self.CACHE, config=wide)
        yield self._just_before_never(rng)
        for share, sizes in ((1.2, (2.0, 1.0625)), (4.0, (2.0, 0.5625))):
            yield self._at_share_of_never(rng, share * rng.uniform(1, 2), sizes, self.NEVER)

    @staticmethod
    def _model(rng) -> dict[str, Any]:
        return _published(str(rng.choice(["Llama-3.1-8B", "Qwen3-8B"])))

    def _just_before_never(self, rng) -> Challenge:
        """Each request brings hardly more seconds of arithmetic than of reading: some hundred thousand are needed."""
        challenge = self._at_share_of_never(rng, 1.0, (2.0, 1.0625), self.NEVER)
        step = Step.of(challenge)
        challenge.data["operations"] *= step.computing_one / step.reading_one_cache / (1 + rng.uniform(3e-4, 6e-4))
        return challenge

    def _at_share_of_never(self, rng, share, sizes, rung, *, config=None) -> Challenge:
        """A context of `share` times the one from which the step is memory-bound whatever the batch."""
        config, machine = config or self._model(rng), _gpu(rng)
        one = Step.of(self._challenge(config, machine, 1, sizes, rung))
        never = (one.computing_one - one.attending) / (one.reading_one_cache - one.attending)
        return self._challenge(config, machine, round(share * never), sizes, rung)

    @staticmethod
    def _challenge(config, machine, context, sizes, rung) -> Challenge:
        options = {"context": context, "bytes_per_weight": sizes[0], "bytes_per_kv": sizes[1]}
        return Challenge({"config": config} | machine | options, decides=(rung,))

    @staticmethod
    def run(learner, challenge):
        from types import SimpleNamespace

        from transformers import AutoConfig

        plain = dict(challenge["config"])
        config = AutoConfig.for_model(plain.pop("model_type"), **plain)
        machine = SimpleNamespace(bandwidth=challenge["bandwidth"], operations=challenge["operations"])
        options = {key: challenge[key] for key in ("context", "bytes_per_weight", "bytes_per_kv")}
        return {"batch": learner.crossover_batch(config, machine, **options)}

    def verify(self, challenge, answer):
        (rung,), step = challenge.decides, Step.of(challenge)
        answer = answer["batch"] if isinstance(answer, dict) and "batch" in answer else answer
        expected = step.crossover
        told = f"For {step}: you gave {describe(answer)}, expected {expected}."
        if expected is None:
            yield Rung(rung, answer is None, f"{told}{self._why_never(answer)}")
        else:
            given, ends = number(answer), sorted((expected, step.with_matrices_only.crossover))
            near = given is not None and ends[0] - 1 <= given <= ends[1] + 1
            why = told + (self._why(answer, step) or f" {OWN_CHECK}")
            if rung == self.NEVER:
                yield Rung(rung, near, why)
                return
            yield Rung(rung, near and given.is_integer(), why)
            yield Rung(self.NEVER, answer is not None, why)

    @staticmethod
    def _why_never(answer) -> str:
        why = " Each request brings more seconds of reading its cache than of arithmetic, so no batch is large enough."
        return why + (" The answer to 'never' is None." if number(answer) is not None else "")

    @staticmethod
    def _why(answer, step: Step) -> str:
        if answer is None:
            return (
                " None means never, but here each request brings more seconds of arithmetic than of reading its cache."
            )
        given = number(answer)
        if given is None or not given.is_integer():
            return " A batch is an integer, the smallest that is large enough."
        step = step.with_matrices_only  # as most count
        weights, one, cache = step.reading_weights, step.computing_one, step.reading_one_cache
        without = one - step.attending
        two_bytes, per_kv = weights * 2 / step.bytes_per_weight, cache / step.bytes_per_kv
        mistakes = {
            "That is the crossover with no cache, or with one for all requests, but every request brings bytes of its "
            "own.": weights / one,
            "That is the crossover without any context, but every request brings bytes of its own, and attention's "
            "operations.": weights / without,
            "That is the machine's operations per byte, as if a weight had two bytes: bytes_per_weight says "
            "otherwise.": two_bytes / (one - cache),
            "That counts a multiply-add once; here it is two operations.": weights / (one / 2 - cache),
            "The operations of attention are missing: 4 per layer, query head, head dimension and token "
            "attended.": weights / (without - cache),
            "The operations of attention are there for the key/value heads only: every query head does its own "
            "products.": weights / (without + step.attending_over(step.shape.K * step.shape.D) - cache),
            "That reads two bytes per number of the cache: bytes_per_kv says otherwise.": weights
            / (one - 2 * per_kv or 1),
            "That reads the cache at bytes_per_weight; its numbers have bytes_per_kv.": weights
            / (one - step.bytes_per_weight * per_kv or 1),
            HIDDEN_SIZE_IN_ATTENTION: weights / (without + step.attending_over(step.shape.E) - cache),
        }
        why, value = min(mistakes.items(), key=lambda mistake: abs(ceil(mistake[1]) - given))
        return f" {why}" if abs(value - given) <= 2 < abs(value - step.crossover) else ""


class WhereTheTimeGoes(Exercise):
    """A step, its floor, and a model of the same depth with tiny matrices: overhead is measured, not left over."""

    WARM = "both are warmed up"
    MEASURED = "measured is the median of honestly timed steps, floor is handed on"
    OVERHEAD = "overhead is the thin model's own step, timed likewise"

    name = "where_the_time_goes"
    rungs: Mapping[str, float] = {WARM: 1, MEASURED: 1, OVERHEAD: 1}
    hints = (
        "Which of the three numbers do you get without measuring, and how do you get each of the other two on its own?",
        "You wrote an honest stop-watch in chapter 00. What must have happened before its first reading, and before "
        "each of the others?",
    )

    def challenges(self, rng):
        for repeats in (int(rng.integers(2, 5)) * 2, int(rng.integers(3, 8)) * 2 + 1):
            yield self._scripted(rng, repeats)

    @classmethod
    def _scripted(cls, rng, repeats) -> Challenge:
        """Work is queued already; the first call of each step is slow, the others vary and sometimes stall."""
        device = VirtualDevice(start=float(rng.uniform(10, 1000)))
        device.enqueue(float(rng.uniform(0.2, 0.4)))
        usual = {"step": rng.uniform(0.03, 0.05), "thin_step": rng.uniform(0.01, 0.02)}
        took: dict[str, list[float]] = {name: [] for name in usual}

        def work(name: str) -> None:
            cold, stall = 1 if took[name] else 20, 4 if rng.random() < 0.15 else 1
            took[name].append(float(cold * stall * usual[name] * rng.lognormal(0, 0.2)))
            device.enqueue(took[name][-1])

        calls = {name: (lambda name=name: work(name)) for name in usual}
        data = {"floor_seconds": float(rng.uniform(0.004, 0.012)), "repeats": repeats}
        return StepsChallenge(data, calls | {"sync": device.sync, "clock": device.clock}, took=took)

    @staticmethod
    def run(learner, challenge):
        return learner.where_the_time_goes(
            lambda: challenge["step"](),
            lambda: challenge["thin_step"](),
            challenge["floor_seconds"],
            repeats=challenge["repeats"],
            sync=challenge["sync"],
            clock=challenge["clock"],
        )

    def verify(self, challenge, answer):
        took = {name: [each + LAUNCH_SECONDS for each in seconds] for name, seconds in challenge.took.items()}
        if complaint := self._not_a_report(answer):
            yield from (Rung(rung, False, complaint) for rung in self.rungs)
            return
        floor = challenge["floor_seconds"]
        warm = self._why_cold(took, challenge["repeats"])
        yield Rung(self.WARM, not warm, warm)
        wrong = self._why_time("measured", answer, took["step"], challenge)
        if not wrong and not close(answer["floor"], floor):
            wrong = f"floor: you gave {describe(answer['floor'])}, expected floor_seconds as it came, {floor:.4g} s."
        yield Rung(self.MEASURED, not wrong, wrong)
        wrong = self._why_time("overhead", answer, took["thin_step"], challenge)
        yield Rung(self.OVERHEAD, not wrong, wrong)

    @staticmethod
    def _not_a_report(answer) -> str:
        if not isinstance(answer, dict):
            return f"where_the_time_goes must return a dict; it returned {describe(answer)}."
        missing = [key for key in ("measured", "floor", "overhead") if key not in answer]
        return f"The dict has no {' and no '.join(map(repr, missing))}." if missing else ""

    @staticmethod
    def _why_cold(took: Mapping[str, list[float]], repeats: int) -> str:
        for name, seconds in took.items():
            if not seconds:
                return f"{name} was never called."
            if len(seconds) == repeats:
                return (
                    f"{name} was called {repeats} times for repeats={repeats}: its first call, slow for reasons of its "
                    f"own ({seconds[0]:.3g} s, the last took {seconds[-1]:.3g}), is counted. What about a warm-up?"
                )
            if len(seconds) < repeats:
                return f"{name} was called {len(seconds)} times for repeats={repeats}."
        return ""

    @classmethod
    def _why_time(cls, key: str, answer, took: list[float], challenge: Challenge) -> str:
        """What is wrong with a median; the last `repeats` calls are the counted ones."""
        what = "step" if key == "measured" else "thin_step"
        if not took:
            why = f"{key}: you gave {describe(answer[key])}, but {what} was never called."
        else:
            expected = median(took[-challenge["repeats"] :])
            if close(answer[key], expected, relative=1e-5):
                return ""
            why = f"{key}: you gave {describe(answer[key])}, expected {expected:.4g} s."
        measured, given = number(answer["measured"]), number(answer[key])
        if key == "overhead" and measured is not None and close(given, measured - challenge["floor_seconds"]):
            return (
                f"{why} That is measured - floor: what is left over when nobody has looked. A model with hardly any "
                "reading or arithmetic shows what the rest takes; the three need not add up."
            )
        counted = took[-challenge["repeats"] :] or [0.0]
        if key == "overhead" and close(given, median(counted) - challenge["floor_seconds"], relative=1e-5):
            return f"{why} That has the floor taken off: overhead is the thin step as measured."
        in_one_reading = mean(counted) - LAUNCH_SECONDS * (1 - 1 / len(counted))  # all but one launched meanwhile
        if close(given, mean(counted), relative=1e-5) or close(given, in_one_reading, relative=1e-5):
            return f"{why} That is a mean, not a median: one stall pulls it."
        if close(given, min(counted), relative=1e-5):
            return f"{why} That is the quickest call, not the median."
        if cls._read_while_queued(challenge.log):
            return f"{why} The clock was read while work was still in the queue: a clock does not wait. What does?"
        if len(took) > 1 + challenge["repeats"]:
            return (
                f"{why} {what} was called more often than 1 + repeats: {len(took)} times for "
                f"repeats={challenge['repeats']}; the last of them are taken as the counted ones."
            )
        if close(given, median(took or [0.0]), relative=1e-5):
            return f"{why} That has the warm-up in it."
        return why

    @staticmethod
    def _read_while_queued(log) -> bool:
        busy = True
        for name, _, _ in log:
            if name == "clock" and busy:
                return True
            busy = name != "sync" and (busy or name in ("step", "thin_step"))
        return False


@dataclass
class StepsChallenge(Challenge):
    """A challenge whose calls tell nobody but the judge what they took, in seconds."""

    took: Mapping[str, list[float]] = field(default_factory=dict)


HOW_FAST_COULD_IT_GO = MarkScheme(
    "how_fast_could_it_go",
    points=(
        SchemePoint(
            "The bytes that one step must read, derived: which weights are counted (an untied input embedding is "
            "not), times bytes per weight.",
            earns="Llama-3.1-8B has 8.03e9 weights; without the input embedding, of which a step reads one row, "
            "7.50e9; at 2 bytes each 15.0e9 bytes.",
            does_not="The model has 8 billion parameters, so a step moves a lot of memory.",
        ),
        SchemePoint(
            "The ceiling: those bytes over the GPU's bandwidth, as seconds per token or tokens per second, with the "
            "source of the bandwidth.",
            earns="At 3350e9 bytes/s (vendor's data sheet, November 2026) that is 4.5 ms, so at most 223 tokens per "
            "second for one request.",
            does_not="On an H100 it could reach about 200 tokens per second.",
        ),
        SchemePoint(
            "The arithmetic of the same step beside it, in seconds or as operations per byte against the ridge: why "
            "it is not what one waits for.",
            earns="The step's 15e9 operations take 0.015 ms at 989e12 per second, 300 times less than the reading.",
            does_not="Decode is memory-bound, so compute does not matter.",
        ),
        SchemePoint(
            "Something that would move the ceiling, with the new number.",
            earns="With 8-bit weights there are 7.5e9 bytes to read and the ceiling rises to 446 tokens per second.",
            does_not="Quantization or a faster GPU would help.",
        ),
        SchemePoint(
            "Something that would not move it, with the cause; or why the measured speed stays below it, with a number "
            "of the learner's own.",
            earns="Twice the arithmetic would change nothing: its units wait for weights 99.7% of the time.",
            does_not="More FLOP/s would not help because the model is limited elsewhere.",
        ),
    ),
    samples=(
        Sample(
            "Qwen3-8B in bfloat16 on an L4. A step reads all weights but the input embedding: 8.19e9 - 0.62e9 = "
            "7.57e9, at 2 bytes 15.1e9 bytes. At 300e9 bytes/s (a second-hand table, November 2026) that takes 50 ms: "
            "20 tokens per second and no more. The 15.1e9 operations take 0.13 ms at 121e12 per second, so arithmetic "
            "is idle. 4-bit weights with scales, say 4.5 bits, are 4.3e9 bytes and lift it to 70 tokens per second. A "
            "GPU with twice the arithmetic and the same memory would not lift it at all, because for one request every "
            "weight is used once and then the next one has to come. On my own machine a step took 39 "
            "ms over a floor of 6, and a model of the same depth with hardly any weights another 6.",
            awarded=(True, True, True, True, True),
            why="Bytes are derived and the table left out, the bandwidth has its source, both times stand side by "
            "side, and each change has its number or its cause.",
        ),
        Sample(
            "Llama-3.1-8B on an H100: 8.03e9 parameters, but the input embedding (0.53e9) is only looked up, so 7.5e9 "
            "x 2 bytes = 15e9 bytes per token. Since decode is memory-bound, the compute units hardly matter. The "
            "ceiling is 15e9 / 3350e9 = 4.5 ms or 223 tokens per second (vendor's data sheet, November 2026). To "
            "go faster one should quantize the model or buy a GPU with more bandwidth. More FLOP/s would not help "
            "much, since we are memory-bound.",
            awarded=(True, True, False, False, False),
            why="3: 'memory-bound' is a term, no operations were counted or compared. 4: two changes, but no new "
            "number. 5: again the term in place of the cause.",
        ),
    ),
)

CHAPTER = Chapter(
    "02_the_fastest_possible",
    "The fastest possible",
    exercises=(
        DecodeWeightBytes(),
        KvBytesPerToken(),
        PrefillFlops(),
        DecodeFloorSeconds(),
        CrossoverBatch(),
        WhereTheTimeGoes(),
    ),
    written=(HOW_FAST_COULD_IT_GO,),
)
