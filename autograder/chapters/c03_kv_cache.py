"""Chapter 03: what a key/value cache saves, what it costs, and how many users it leaves room for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np

from autograder.chapters import tiny
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
    numbers,
)

STACK_VOCABULARY = 4096  # of the shallow stack that is timed


class CachedAttention(Exercise):
    """Causal attention of T new tokens over S held ones, grouped heads, the mask aligned at the end."""

    ONE = "one new token sees every token that is held"
    MANY = "several new tokens see the held ones, and one another only backwards"
    GROUPS = "neighbouring query heads share a key/value head"
    WEIGHTS = "weights are the softmax over keys of scores / sqrt(D)"

    name = "cached_attention"
    rungs: Mapping[str, float] = {ONE: 1, MANY: 2, GROUPS: 1, WEIGHTS: 1}
    hints = (
        "Seven tokens are held and three of them are new. Which of the seven may the first new one see, and does "
        "your mask say so when you print it?",
        "Six query heads, two key/value heads: which query heads read the first? Print the order that "
        "your way of repeating gives. What becomes of the size of a score when D grows?",
    )

    def challenges(self, rng):
        size = {"new": int(rng.integers(3, 7)), "held": int(rng.integers(9, 20))}
        yield self._challenge(rng, new=1, held=size["held"], decides=(self.ONE, self.GROUPS, self.WEIGHTS))
        yield self._challenge(rng, **size, decides=(self.MANY,))
        yield self._challenge(rng, new=size["new"], held=size["new"], decides=(self.MANY,))

    @staticmethod
    def _challenge(rng, *, new: int, held: int, decides) -> Challenge:
        key_heads, group = int(rng.integers(2, 4)), int(rng.integers(2, 4))
        batch, size = 2, int(rng.choice([8, 12, 20]))

        def values(heads, tokens):
            return rng.standard_normal((batch, heads, tokens, size), dtype=np.float32)

        data = {
            "q": values(key_heads * group, new),
            "keys": values(key_heads, held),
            "values": values(key_heads, held),
        }
        return Challenge(data, decides=decides)

    @staticmethod
    def run(learner, challenge):
        import torch

        from autograder import lab

        tensors = [torch.as_tensor(challenge[name]).to(lab.device()) for name in ("q", "keys", "values")]
        before = [tensor.clone() for tensor in tensors]
        given = learner.cached_attention(*tensors)
        return {"given": given, "kept": all(map(torch.equal, tensors, before))}

    def verify(self, challenge, answer):
        q, keys, values = (challenge[name] for name in ("q", "keys", "values"))
        answer, kept = answer["given"], answer["kept"]
        given, new = _floats(answer), q.shape[2]
        if given is None or given.shape != q.shape:
            yield from (Rung(name, False, self._why_shape(answer, q)) for name in challenge.decides)
            return
        mistakes = _recognised(given, q, keys, values)
        rungs = {self.ONE if new == 1 else self.MANY: "mask", self.GROUPS: "heads", self.WEIGHTS: "weights"}
        for rung, which in rungs.items():
            if rung in challenge.decides and rung == self.WEIGHTS and not kept:
                yield Rung(rung, False, "q, keys or values have changed, and they are the caller's: what writes there?")
            elif rung in challenge.decides:
                yield Rung(rung, mistakes is not None and not mistakes[which], self._why(mistakes, which, challenge))

    @staticmethod
    def _why_shape(answer, q) -> str:
        why = f"q is [B, H, T, D] = {list(q.shape)} and so is what comes out; you returned {describe(answer)}."
        shape = tuple(getattr(answer, "shape", ()))
        if q.shape[2] > 1 and shape in ((*q.shape[:2], 1, q.shape[3]), (*q.shape[:2], q.shape[3])):
            return why + f" {q.shape[2]} tokens are new here, and you answered for one of them."
        if shape == (q.shape[0], q.shape[2], q.shape[1], q.shape[3]):
            return why + " Heads and tokens have changed places."
        return why

    @staticmethod
    def _why(mistakes, which, challenge) -> str:
        (_, heads, new, _), (_, key_heads, held, _) = challenge["q"].shape, challenge["keys"].shape
        where = f"{new} new of {held} held tokens, {heads} query heads over {key_heads}: "
        if mistakes is None:
            return where + (
                "these are not the numbers of attention, nor those of a mistake known here. Try one head, one query "
                "and two keys by hand: which sums and products do you expect?"
            )
        return where + ATTENTION_MISTAKES[which].get(mistakes[which], "")


ATTENTION_MISTAKES = {
    "mask": {
        "aligned at the start": (
            "your mask is aligned at the start: the first new token sees the first held one alone. The new tokens are "
            "the last ones; which row of the full square is theirs?"
        ),
        "none": "there is no mask: the new tokens see tokens that come after them.",
        "one too many": "each new token also sees the one after it. What may the last but one see at most?",
        "not itself": "a new token must see itself, too; yours sees only those before it.",
        "zeroed": (
            "masked scores are 0 before the softmax, and a score of 0 still gets a weight. Which score gets none?"
        ),
    },
    "heads": {
        "tiled": (
            "key/value heads are tiled: 0 1 0 1 for query heads that need 0 0 1 1. Neighbours share a head; "
            "repeat() and repeat_interleave() differ in exactly this."
        ),
    },
    "weights": {
        "unscaled": "the scores are not divided by the square root of D, so the softmax is far too sharp.",
        "by D": "the scores are divided by D; attention divides by its square root.",
        "over queries": "the softmax runs over the queries: the weights of one query over all keys must add up to 1.",
    },
}


def _attention(q, keys, values, *, mask: str = "", heads: str = "", weights: str = "") -> np.ndarray:
    """Attention in float64 [B, H, T, D]; each keyword names a mistake, and "" none."""
    q, keys, values = (x.astype(np.float64) for x in (q, keys, values))
    group, new, held, size = q.shape[1] // keys.shape[1], q.shape[2], keys.shape[2], q.shape[3]
    if heads == "tiled":
        keys, values = np.tile(keys, (1, group, 1, 1)), np.tile(values, (1, group, 1, 1))
    else:
        keys, values = keys.repeat(group, axis=1), values.repeat(group, axis=1)
    scale = {"unscaled": 1.0, "by D": 1 / size}.get(weights, size**-0.5)
    scores = q @ keys.swapaxes(-1, -2) * scale  # [B, H, T, S]
    first = {"aligned at the start": 0, "one too many": held - new + 1, "not itself": held - new - 1, "none": held}
    seen = np.tri(new, held, first.get(mask, held - new), dtype=bool)
    scores = np.where(seen, scores, 0.0 if mask == "zeroed" else -np.inf)
    axis = -2 if weights == "over queries" else -1
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.exp(scores - scores.max(axis, keepdims=True))
        shares /= shares.sum(axis, keepdims=True)
        return shares @ values


def _recognised(given: np.ndarray, q, keys, values) -> dict[str, str] | None:
    """The mistakes with which attention gives these very numbers ({"mask": "", ...}: none), or None."""
    for mask in ("", *ATTENTION_MISTAKES["mask"]):
        for heads in ("", *ATTENTION_MISTAKES["heads"]):
            for weights in ("", *ATTENTION_MISTAKES["weights"]):
                made = {"mask": mask, "heads": heads, "weights": weights}
                if np.allclose(given, _attention(q, keys, values, **made), rtol=1e-3, atol=1e-4, equal_nan=any(made)):
                    return made
    return None


class PreallocatedCache(Exercise):
    """Keys and values of all layers in storage that is taken once; views of it come back."""

    CONTENTS = "append gives back all tokens so far, in every layer, and advance moves the length"
    VIEWS = "as views of storage that construction reserved, and nbytes counts"
    CROP = "crop(n) takes back the last n tokens"
    FULL = "a full cache raises CacheFull and keeps its contents intact"
    MODEL = "inside a transformers model the logits stay the same"

    name = "PreallocatedCache"
    needs = ("PreallocatedCache", "CacheFull")
    rungs: Mapping[str, float] = {CONTENTS: 1, VIEWS: 1, CROP: 1, FULL: 1, MODEL: 1}
    hints = (
        "A cache for five tokens holds three, and two more come, for layer 0 and then for layer 1. Where does each "
        "layer write, and when may the length change?",
        "Which ways of indexing a tensor give a view and which a copy? And what must be known before the first new "
        "key is written, if a full cache is to stay as it was?",
    )

    def challenges(self, rng):
        steps = [("append", 24), ("append", 1), ("append", 3)]
        yield self._script(rng, steps, (self.CONTENTS, self.VIEWS), "bfloat16", max_tokens=32)
        yield self._script(rng, [("append", 5), ("crop", 2), ("append", 3), ("crop", 1), ("append", 1)], (self.CROP,))
        yield self._script(
            rng, [("append", 5), ("append", 4), ("append", 3), ("append", 1)], (self.FULL,), max_tokens=8
        )
        seed, tokens = int(rng.integers(1 << 30)), rng.integers(tiny.VOCABULARY, size=20).tolist()
        yield Challenge({"seed": seed, "forwards": [tokens[:9], tokens[9:10], tokens[10:]]}, decides=(self.MODEL,))

    @staticmethod
    def _script(rng, steps, decides, dtype="float32", max_tokens=12) -> Challenge:
        layers, batch, heads, size = 3, 2, int(rng.integers(2, 4)), int(rng.choice([8, 12]))
        config = {
            "num_hidden_layers": layers,
            "num_attention_heads": 4 * heads,
            "num_key_value_heads": heads,
            "head_dim": size,
            "hidden_size": 24 * heads,
        }
        script = []
        for do, n in steps:
            shape = (2, layers, batch, heads, n, size)
            new = rng.integers(1, 120, shape).astype(np.float32) if do == "append" else None  # exact in bfloat16
            script.append({"do": do, "n": n, "new": new})
        data = {"config": config, "max_tokens": max_tokens, "batch": batch, "dtype": dtype, "script": script}
        return Challenge(data, decides=decides)

    @staticmethod
    def run(learner, challenge):
        import copy

        import torch
        import transformers
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        from autograder import lab

        class Copying(TorchDispatchMode):
            """Counts the numbers that come from tensors and are written somewhere; views write nothing."""

            numbers = 0

            def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
                result = operation(*args, **(kwargs or {}))
                read = [x for x in tree_leaves((args, kwargs)) if torch.is_tensor(x)]
                places = {x.untyped_storage().data_ptr() for x in read}
                into = [x for x in tree_leaves(result) if torch.is_tensor(x)]
                if operation._schema.is_mutable:
                    read = [x for x in read if not any(x is y for y in into)]
                else:
                    into = [x for x in into if x.untyped_storage().data_ptr() not in places]
                self.numbers += min(sum(x.numel() for x in read), sum(x.numel() for x in into))
                return result

        if "forwards" in challenge:
            model = lab.load_model("shape:tiny", dtype=torch.float32, seed=challenge["seed"])
            options = {"batch": 1, "dtype": torch.float32, "device": lab.device()}
            store = learner.PreallocatedCache(model.config, 24, **options)
            before, strange = 0, []  # tokens of earlier forwards; (layer, keys given back, keys that are held)

            class Adapter(transformers.Cache):
                def __init__(self):
                    super().__init__(layers=[])

                def update(self, keys, values, layer_idx, *args, **kwargs):
                    held = store.append(layer_idx, keys, values)
                    if held[0].shape[2] != before + keys.shape[2]:
                        strange.append((layer_idx, held[0].shape[2], before + keys.shape[2]))
                    if layer_idx == model.config.num_hidden_layers - 1:
                        store.advance(keys.shape[2])
                    return held

                def get_seq_length(self, layer_idx=0):
                    return int(store.length)

                def get_mask_sizes(self, query_length, layer_idx):
                    return int(store.length) + query_length, 0

            cache, logits = Adapter(), []
            with torch.inference_mode():
                for tokens in challenge["forwards"]:
                    ids = torch.tensor([tokens], device=lab.device())
                    try:
                        logits.append(lab.forward(model, ids, cache, keep=0)[0])
                    except Exception:
                        if not strange:
                            raise
                    if strange:  # what becomes of it in the model says less than where it began
                        return {"strange": strange[0]}
                    before += len(tokens)
            return logits

        dtype = getattr(torch, challenge["dtype"])
        config = transformers.LlamaConfig(**challenge["config"])
        before = lab.alive.storages()
        options = {"batch": challenge["batch"], "dtype": dtype, "device": lab.device()}
        cache = learner.PreallocatedCache(config, challenge["max_tokens"], **options)
        reserved = {place: n for place, n in lab.alive.storages().items() if n and place not in before}
        steps = []
        for step in challenge["script"]:
            seen = {"held": [], "at_home": [], "raised": "", "copied": []}
            if step["do"] == "crop":
                cache.crop(step["n"])
            else:
                keys, values = torch.as_tensor(step["new"]).to(device=lab.device(), dtype=dtype)
                try:
                    for layer in range(config.num_hidden_layers):
                        with Copying() as copying:
                            held = cache.append(layer, keys[layer], values[layer])
                        seen["copied"].append(copying.numbers)
                        pair = held if isinstance(held, tuple | list) else ()
                        places = [x.untyped_storage().data_ptr() for x in pair if torch.is_tensor(x)]
                        seen["at_home"].append(len(places) == 2 and all(place in reserved for place in places))
                        # as it is now: a view would show what is written over it later
                        seen["held"].append([x.clone() if torch.is_tensor(x) else x for x in pair] or held)
                    cache.advance(step["n"])
                except learner.CacheFull:
                    seen["raised"] = "CacheFull"
                except RuntimeError as error:
                    seen["raised"] = type(error).__name__
            steps.append(seen | {"length": copy.deepcopy(cache.length)})  # as it is now
        return {"steps": steps, "reserved": sum(reserved.values()), "nbytes": cache.nbytes}

    def verify(self, challenge, answer):
        if "forwards" in challenge.data:
            complaint = _why_logits(challenge, answer)
            yield Rung(self.MODEL, complaint is None, complaint or "")
            return
        rung = challenge.decides[0]
        complaint = _why_steps(challenge, answer["steps"])
        yield Rung(rung, complaint is None, complaint or "")
        if self.VIEWS in challenge.decides:
            complaint = _why_storage(challenge, answer)
            yield Rung(self.VIEWS, complaint is None, complaint or "")


def _why_logits(challenge, answer) -> str | None:
    """What is wrong with the logits of a model that keeps its keys and values in the learner's cache."""
    import torch

    from autograder import lab

    if isinstance(answer, dict):
        layer, given, held = answer["strange"]
        return (
            f"layer {layer} gave back {given} tokens where {held} are held, and the model attends to what append gives "
            "back, no more and no less (as above)."
        )
    model = lab.load_model("shape:tiny", dtype=torch.float32, seed=challenge["seed"])
    cache, before = lab.new_cache(model), 0
    for given, tokens in zip(answer, challenge["forwards"], strict=True):
        with torch.inference_mode():
            expected = lab.forward(model, torch.tensor([tokens], device=lab.device()), cache, keep=0)[0]
        given, expected = _floats(given), _floats(expected)
        off = float(np.abs(given - expected).max() / expected.std()) if given is not None else math.inf
        if not off < 1e-3:
            return (
                f"shape:tiny was fed {len(tokens)} tokens after {before}, and its logits are off by "
                f"{off:.2g} of their deviation. Does append give back what the model attended to before, in order?"
            )
        before += len(tokens)
    return None


def _why_steps(challenge, steps) -> str | None:
    """What is wrong with what the cache gave back, step by step; the judge replays the script."""
    kept: list[np.ndarray] = []  # one [2, L, B, K, D] per token that is held
    story, most = [], challenge["max_tokens"]
    for step, seen in zip(challenge["script"], steps, strict=True):
        n, before = step["n"], len(kept)
        story.append(f"{step['do']} {n}")
        told = ", ".join(story) + f" (room for {most}): "
        if step["do"] == "crop":
            kept = kept[: before - n]
            if number(seen["length"]) != len(kept):
                return told + _why_crop_length(seen["length"], before, n)
            continue
        if before + n > most:
            if seen["raised"] != "CacheFull":
                return told + _why_not_full(seen, before, n)
            if number(seen["length"]) != before:
                return told + f"after CacheFull the length is {describe(seen['length'])}; it was {before}."
            continue
        if seen["raised"]:
            room = f"there is still room for {most - before}, and {n} came."
            return told + f"{seen['raised']}, but {room}"
        kept += list(np.moveaxis(step["new"], -2, 0))
        for layer, held in enumerate(seen["held"]):
            if complaint := _why_held(held, kept, layer, n):
                full = any("raised" in s and s["raised"] for s in steps[: len(story)])
                return told + complaint + (" CacheFull must leave the contents intact." if full else "")
        if number(seen["length"]) == len(kept) + n:
            return told + f"the length grew by {2 * n} with {n} tokens: append stores, and only advance counts them."
        if number(seen["length"]) != len(kept):
            return told + f"the length is {describe(seen['length'])} after advance; {len(kept)} tokens are held."
    return None


def _why_crop_length(length, before: int, n: int) -> str:
    why = f"the length is {describe(length)}, expected {before - n}."
    if number(length) == n:
        return f"{why} crop(n) removes the last n tokens; yours keeps n."
    if number(length) == before:
        return f"{why} The cropped tokens are still counted: they stay as ghosts, and attention will see them."
    return why


def _why_not_full(seen, before: int, n: int) -> str:
    if seen["raised"]:
        return f"{seen['raised']} came, where `CacheFull` says what is wrong. Who notices first that there is no room?"
    return f"{before} tokens were held, {n} more came and nothing was raised. What was lost? Raise CacheFull instead."


def _why_held(held, kept: list[np.ndarray], layer: int, n: int) -> str | None:
    """What is wrong with the pair that append gave back for one layer, when `n` tokens came last."""
    if not isinstance(held, tuple | list) or len(held) != 2:
        return f"append must give back (keys, values); layer {layer} gave {describe(held)}."
    for part, name in enumerate(("keys", "values")):
        expected = np.stack([token[part, layer] for token in kept], axis=-2)  # [B, K, S, D]
        other = np.stack([token[1 - part, layer] for token in kept], axis=-2)
        given = _floats(held[part])
        if given is None or given.shape != expected.shape:
            return _why_held_shape(held[part], expected, name, layer, n)
        if np.array_equal(given, expected):
            continue
        if np.array_equal(given, other):
            return f"layer {layer}: keys and values are swapped."
        wrong = [i for i in range(len(kept)) if not np.array_equal(given[:, :, i], expected[:, :, i])]
        if len(kept) > n and wrong[0] < len(kept) - n:
            return (
                f"layer {layer}: the {name} of token {wrong[0]} are no longer what they were: they were written "
                "over. Where do new tokens belong?"
            )
        return f"layer {layer}: the {name} of token {wrong[0]}, one of those that just came, are not what came."
    return None


def _why_held_shape(given, expected, name: str, layer: int, n: int) -> str:
    why = f"layer {layer} gave {describe(given)} as {name}, expected shape {list(expected.shape)}."
    shape = tuple(getattr(given, "shape", ()))
    if len(shape) != 4 or shape[:2] != expected.shape[:2] or shape[3] != expected.shape[3]:
        return why
    tokens, held = shape[2], expected.shape[2]
    if tokens == n < held:
        return why + " Those are the new tokens alone; attention needs the old ones, too."
    if layer and tokens == held + layer * n:
        return (
            f"{why} Layer 0 was right, and layer {layer} writes behind it: the length moved before the last layer "
            "had its turn. Whose call moves it?"
        )
    if tokens > held:
        return why + " Are empty places or cropped tokens among them?"
    return why


def _why_storage(challenge, answer) -> str | None:
    """What is wrong with where the tokens lie, and with what nbytes says."""
    config, dtype = challenge["config"], challenge["dtype"]
    heads, size = config["num_key_value_heads"], config["head_dim"]
    wide = 2 if dtype == "bfloat16" else 4
    numbers_held = 2 * config["num_hidden_layers"] * challenge["batch"] * heads * challenge["max_tokens"] * size
    expected, made = wide * numbers_held, answer["reserved"]
    if made < expected:
        return (
            f"construction reserved {made} bytes; the {challenge['max_tokens']} tokens need {expected}. What append "
            "gives back was allocated later, and each new token may move all old ones."
        )
    if not all(home for seen in answer["steps"] for home in seen["at_home"]):
        return (
            "what append gives back does not lie in the storage of construction: it is a copy of it. Slices are "
            "views; which of your operations is not?"
        )
    if complaint := _why_copied(challenge, answer["steps"]):
        return complaint
    if made > 1.1 * expected:
        why = f"construction reserved {made} bytes where {dtype} keys and values need {expected}."
        if close(made / expected, config["num_attention_heads"] / heads, relative=0.05):
            return why + " That is a place for each of the query heads; how many heads have keys?"
        return why + (" That is float32's size." if close(made / expected, 4 / wide, relative=0.05) else "")
    if not close(answer["nbytes"], expected):
        return f"nbytes is {describe(answer['nbytes'])}; {expected} bytes are reserved for keys and values."
    return None


def _why_copied(challenge, steps) -> str | None:
    """Whether an append of a token behind many moved as many numbers as were held; a token's own may move often."""
    held = 0
    for step, seen in zip(challenge["script"], steps, strict=True):
        token = step["new"][0, 0, :, :, 0].size  # of one part and layer
        if held > 16 * step["n"] and (copied := max(seen["copied"], default=0)) > held * token:
            return (
                f"{step['n']} token came behind {held} held ones, and append copied as much as keys or values of "
                f"{copied // token} tokens: what was there already stays where it lies. Which places are new?"
            )
        held += step["n"]
    return None


@dataclass
class _Turn:
    """What the judge saw of one turn: whose it was, and each forward's (tokens, cached, first position given)."""

    who: int
    fed: list[tuple[int, int, int | None]] = field(default_factory=list)

    @staticmethod
    def all_in(log) -> list[_Turn]:
        """One per `turn` in a challenge's log of calls."""
        turns = []
        for name, args, _ in log:
            if name == "turn":
                turns.append(_Turn(args[0]))
            elif name == "forward" and turns:
                turns[-1].fed.append(args)
        return turns


class ChatTurn(Exercise):
    """One turn of a chat that feeds only what the conversation's cache lacks."""

    FIRST = "the first turn gives the model's greedy reply"
    NEXT = "so does every later turn"
    FORWARDS = "a turn feeds only what the cache lacks, in `reply_tokens` forwards"
    MIX = "two interleaved conversations do not mix"

    name = "chat_turn"
    rungs: Mapping[str, float] = {FIRST: 1, NEXT: 1, FORWARDS: 1, MIX: 1}
    speed_points = 1
    speed_rung = "faster than prefilling the whole conversation every turn"
    counted = (FORWARDS,)
    minimum_ratio = 1.6
    hints = (
        "Ten tokens in, four replied. The last reply token was predicted; was it ever fed? So how many tokens does "
        "the cache hold when the next message comes?",
        "You know how long the conversation is, and the cache knows how much of it it holds. Which slice of "
        "`history_ids` is left, and whose cache is it?",
    )

    def challenges(self, rng):
        single = (self.FIRST, self.NEXT, self.FORWARDS)
        yield _with_an_end(lambda: self._challenge(rng, [(0, 9, 5), (0, 4, 6), (0, 1, 4)], single))
        yield self._challenge(rng, [(0, 1, 1), (0, 7, 1), (0, 3, 3)], single)
        yield self._challenge(rng, [(0, 24, 3), (1, 6, 5), (0, 4, 4), (1, 5, 3)], (self.MIX,))

    @staticmethod
    def _challenge(rng, turns, decides) -> Challenge:
        data = {
            "seed": int(rng.integers(1 << 30)),
            "turns": [(who, rng.integers(tiny.VOCABULARY, size=m).tolist(), n) for who, m, n in turns],
            "eos": None,
        }
        calls = {"turn": lambda who: None, "forward": lambda tokens, cached, position: None}
        return Challenge(data, calls=calls, decides=decides)

    @staticmethod
    def run(learner, challenge):
        import copy

        import torch

        from autograder import lab

        torch.set_num_threads(1)  # on a model this small threads would mostly wait for each other
        model = copy.deepcopy(lab.load_model("shape:tiny", dtype=torch.float32, seed=challenge["seed"]))
        model.config.eos_token_id = model.generation_config.eos_token_id = challenge["eos"]

        carried = []  # (tokens, cached) of this turn's forwards

        def before_forward(decoder, args, kwargs):
            ids = kwargs.get("input_ids", args[0] if args else None)  # [B, T]
            ids = kwargs["inputs_embeds"] if ids is None else ids  # [B, T, E]
            lengths = [x.get_seq_length() for x in (*args, *kwargs.values()) if hasattr(x, "get_seq_length")]
            positions = kwargs.get("position_ids")
            first = None if positions is None else int(positions.flatten()[0])
            carried.append((ids.shape[0] * ids.shape[1], int(lengths[0]) if lengths else 0))
            challenge["forward"](*carried[-1], first)

        model.model.register_forward_pre_hook(before_forward, with_kwargs=True)
        histories, caches, answers = {}, {}, []
        for who, message, reply_tokens in challenge["turns"]:
            message = torch.tensor([message], device=lab.device())
            history = torch.cat([histories[who], message], dim=1) if who in histories else message
            challenge["turn"](who)
            carried.clear()
            try:
                given = learner.chat_turn(model, caches.get(who), history.clone(), reply_tokens)
            except Exception:
                if carried and carried[-1][0] == 0:  # what a model says of no tokens helps nobody
                    return [*answers, {"empty": carried[-1][1]}]
                raise
            if not isinstance(given, tuple | list) or len(given) != 2:
                return [*answers, {"instead": given}]
            reply, caches[who] = given
            answers.append({"reply": reply})
            if not torch.is_tensor(reply) or reply.shape != (1, reply_tokens) or reply.is_floating_point():
                return answers
            histories[who] = torch.cat([history, reply.to(history)], dim=1)
        return answers

    def verify(self, challenge, answer):
        seen, held, histories = _Turn.all_in(challenge.log), {}, {}
        wrong: dict[str, str] = {}
        for i, ((who, message, n), turn, given) in enumerate(zip(challenge["turns"], seen, answer, strict=False)):
            history = histories.get(who, []) + message
            told = f"turn {i + 1}, {len(history)} tokens so far, {n} to reply: "
            complaints = (
                _why_reply(given, challenge, history, n),
                _why_fed(turn.fed, len(history), n, held.get(who, 0)),
                _why_mixed(turn.fed, held.get(who, 0), new=who not in histories),
            )
            for rung, complaint in self._rungs_of(turn, complaints, len(history), new=who not in histories):
                if complaint:
                    wrong.setdefault(rung, told + complaint)
            if "reply" not in given or i + 1 == len(answer) < len(
                challenge["turns"]
            ):  # the conversation could not go on
                why = told + (complaints[0] or "the reply could not be read.")
                wrong = {rung: wrong.get(rung, why) for rung in challenge.decides}
                break
            histories[who] = history + [int(token) for token in given["reply"].flatten()]
            held[who] = len(histories[who]) - 1
        for rung in challenge.decides:
            yield Rung(rung, rung not in wrong, wrong.get(rung, ""))

    def _rungs_of(self, turn: _Turn, complaints, tokens: int, *, new: bool) -> Iterator[tuple[str, str | None]]:
        """(rung, what is wrong) of one turn. A wrong reply after a right count may come from a strange cache."""
        reply, fed, mixed = complaints
        exact = fed is None
        yield self.FORWARDS, fed
        yield self.MIX, mixed or (reply if exact or new else None)
        if reply and not exact and turn.fed and sum(turn.fed[0][:2]) != tokens:
            reply = fed  # a token too many or too few explains the reply
        elif reply and (moved := _why_positions(turn.fed)):
            reply = moved
        yield (self.FIRST if new else self.NEXT), reply

    workloads = (
        {"first": 192, "message": 8, "turns": 6, "reply": 2},
        {"first": 384, "message": 8, "turns": 6, "reply": 2},
        {"first": 2048, "message": 16, "turns": 8, "reply": 2},
        {"first": 6144, "message": 16, "turns": 8, "reply": 2},
    )

    def timed_challenge(self, rng, workload):
        lengths = [workload["first"], *[workload["message"]] * (workload["turns"] - 1)]
        messages = [rng.integers(STACK_VOCABULARY, size=(1, tokens)) for tokens in lengths]
        return Challenge({"messages": messages, "reply_tokens": workload["reply"]})

    @staticmethod
    def timed_run(learner, challenge):
        import torch

        from autograder import lab

        shape = {"layers": 2, "vocab_size": 4096, "dtype": torch.float32, "seed": 0}
        model = lab.load_model("shape:smollm2-135m", **shape)
        table = model.get_input_embeddings().weight
        if model.lm_head.weight is table:  # random and tied, it would only repeat the last token
            model.lm_head.weight = torch.nn.Parameter(table.roll(1, dims=1), requires_grad=False)
        history, cache, replies = torch.empty(1, 0, dtype=torch.int64, device=lab.device()), None, []
        for message in challenge["messages"]:
            history = torch.cat([history, torch.as_tensor(message).to(history)], dim=1)
            reply, cache = learner.chat_turn(model, cache, history.clone(), challenge["reply_tokens"])
            replies.append(reply)
            history = torch.cat([history, reply.to(history)], dim=1)
        return replies

    @staticmethod
    def baseline(challenge):
        import torch

        from autograder import lab

        shape = {"layers": 2, "vocab_size": 4096, "dtype": torch.float32, "seed": 0}
        model = lab.load_model("shape:smollm2-135m", **shape)
        table = model.get_input_embeddings().weight
        if model.lm_head.weight is table:  # as in timed_run
            model.lm_head.weight = torch.nn.Parameter(table.roll(1, dims=1), requires_grad=False)
        history, replies = torch.empty(1, 0, dtype=torch.int64, device=lab.device()), []
        with torch.inference_mode():
            for message in challenge["messages"]:
                ids = history = torch.cat([history, torch.as_tensor(message).to(history)], dim=1)
                cache, tokens, margins = lab.new_cache(model), [], []  # nothing is kept from turn to turn
                for _ in range(challenge["reply_tokens"]):
                    logits = lab.forward(model, ids, cache)[0, -1]  # [V]
                    best = logits.topk(2).values
                    margins.append(((best[0] - best[1]) / logits.std()).item())
                    ids = logits.argmax().view(1, 1)
                    tokens.append(ids.item())
                history = torch.cat([history, torch.tensor([tokens]).to(history)], dim=1)
                replies.append((tokens, margins))
        return replies

    def agrees(self, challenge, answer, expected):
        for i, (reply, (tokens, margins)) in enumerate(zip(answer, expected, strict=True)):
            if complaint := _why_tokens(reply, tokens, margins):
                return f"turn {i + 1}: {complaint}"
            if min(margins) <= 1e-3:
                return None  # after a near tie the conversations may differ
        return None


def _with_an_end(draw) -> Challenge:
    """A challenge whose last reply has the end-of-sequence token before its end, and no earlier reply has it."""
    for _ in range(100):
        challenge, history, replies = draw(), [], []
        for _, message, n in challenge["turns"]:
            history += message
            replies.append(tiny.greedy(challenge["seed"], [history], n)[0])
            history += replies[-1]
        *earlier, last = replies
        if fresh := [token for token in last[:-1] if not any(token in reply for reply in earlier)]:
            break
    challenge.data["eos"] = fresh[0] if fresh else last[0]
    return challenge


def _why_reply(given, challenge, history: list[int], n: int) -> str | None:
    """What is wrong with what one turn returned."""
    if "empty" in given:
        return f"a forward carried no token, on top of {given['empty']} cached ones. Where does your slice begin?"
    if "instead" in given:
        return f"return the tuple (reply_ids, cache); you returned {describe(given['instead'])}."
    shape = tuple(getattr(given["reply"], "shape", ()))
    if shape == (1, len(history) + n):
        return f"the reply has the history too; reply_ids are the {n} new tokens alone, [1, {n}]."
    if len(shape) == 2 and 0 < shape[1] < n and int(given["reply"][0, -1]) == challenge["eos"]:
        return (
            f"the reply ended after {shape[1]} of {n} tokens, at an end-of-sequence token; this one goes on to its end."
        )
    if shape != (1, n) or "int" not in str(given["reply"].dtype):
        return f"reply_ids are int64 of shape [1, {n}]; you returned {describe(given['reply'])}."
    return _why_tokens(given["reply"], *tiny.greedy(challenge["seed"], [history], n))


def _why_tokens(reply, expected: list[int], margins: list[float]) -> str | None:
    """The first reply token that is not the greedy one; after a near tie any will do."""
    if tuple(getattr(reply, "shape", ())) != (1, len(expected)):
        return f"reply_ids are int64 of shape [1, {len(expected)}]; you returned {describe(reply)}."
    for i, (token, right, margin) in enumerate(zip(reply.flatten().tolist(), expected, margins, strict=True)):
        if margin <= 1e-3:
            return None
        if token != right:
            return (
                f"reply token {i + 1} is {describe(token)}, greedy is {right}. Does the model see the whole "
                "conversation, each token once and at its own position?"
            )
    return None


def _why_fed(fed, tokens: int, n: int, held: int) -> str | None:
    """What is wrong with the forwards of a turn whose conversation has `tokens` tokens, `held` of them cached."""
    counts = [forward[:2] for forward in fed]
    if counts == [(tokens - held, held), *((1, tokens + i) for i in range(n - 1))]:
        return None
    if not fed:
        return "the model was never called."
    new, cached = counts[0]
    if cached and not held:
        return _why_foreign(cached)
    if cached and new == tokens:
        return f"the first forward put the whole conversation on top of {cached} cached tokens. What does it lack?"
    if held and new == tokens:
        return f"all {tokens} tokens were prefilled again, though the last turn left {held} in its cache."
    if new + cached == tokens - 1 and not held:
        return (
            f"{new} tokens went in, and the conversation has {tokens}. Where does your slice begin, where does it end?"
        )
    if new + cached == tokens - 1:
        return (
            f"{new} tokens went in on top of {cached} cached ones, and the conversation has {tokens}. One was never "
            "fed: which token did the last turn predict at its very end?"
        )
    if new + cached == tokens + 1:
        return (
            f"{new} tokens went in on top of {cached} cached ones, and the conversation has {tokens}: one stands in "
            "the cache twice. Which token ends one turn and begins the next?"
        )
    if len(fed) == n + 1:
        return f"{n + 1} forwards for a reply of {n}: the last one's prediction nobody reads."
    if len(fed) != n:
        return f"{len(fed)} forwards for a reply of {n}; each forward predicts one token."
    return f"the first forward carried {new} tokens on top of {cached}; the cache held {held} of {tokens}."


def _why_foreign(cached: int) -> str:
    return (
        f"the first turn got cache=None, yet your code already held {cached} tokens: another conversation's. Where do "
        "they come from?"
    )


def _why_mixed(fed, held: int, *, new: bool) -> str | None:
    """Whether a turn found tokens in its cache that are not this conversation's."""
    cached = fed[0][1] if fed else 0
    if new and cached:
        return _why_foreign(cached)
    if not new and cached not in (0, held, held + 1):
        return f"this conversation had left {held} tokens, the cache holds {cached}: another conversation's."
    return None


def _why_positions(fed) -> str | None:
    """Whether a forward said that it starts at another position than behind what is cached."""
    for _, cached, position in fed:
        if position is not None and position != cached:
            return (
                f"a forward said that it starts at position {position} with {cached} tokens cached. Positions go on "
                "where the conversation stopped; leave them out and the model counts itself."
            )
    return None


class MaxUsers(Exercise):
    """Users whose caches fit into memory beside all weights and a reserve."""

    FITS = "the users that fit beside all weights and the reserve"
    NONE = "0 where not even one fits"

    name = "max_users"
    rungs: Mapping[str, float] = {FITS: 2, NONE: 1}
    hints = (
        "What lies in memory before the first user comes? Does a table of which a step reads one row lie there as a "
        "whole?",
        "How many bytes does one user's context of `context` tokens take: which factors, and which heads? What does "
        "half a user mean, and what less than none?",
    )

    def challenges(self, rng):
        for tied in (False, True):
            yield Challenge(_telling(rng, tied), decides=(self.FITS, self.NONE))  # here 0 is wrong
        config = _configuration(rng, False)
        for users in (-7.8, -9.5):
            yield Challenge({"config": config, "options": _options(rng, config, users=users)}, decides=(self.NONE,))

    @staticmethod
    def run(learner, challenge):
        import transformers

        config = transformers.AutoConfig.for_model(**challenge["config"])
        return learner.max_users(config, **challenge["options"])

    def verify(self, challenge, answer):
        exact = _users(challenge["config"], **challenge["options"])
        expected, given = max(0, math.floor(exact)), number(answer)
        why = self._why(challenge, answer, expected)
        if self.FITS in challenge.decides:
            yield Rung(self.FITS, given == expected, why)
            yield Rung(self.NONE, given != 0, why)
        else:
            yield Rung(self.NONE, given == expected, why)

    @staticmethod
    def _why(challenge, answer, expected: int) -> str:
        config, options = challenge["config"], challenge["options"]
        why = (
            f"{options['memory_bytes'] / 1e9:.4g} GB, {options['context']} tokens each, "
            f"{options['bytes_per_weight']:g} bytes per weight and {options['bytes_per_kv']:g} per cached number: you "
            f"gave {describe(answer)}, expected {expected}."
        )
        given = number(answer)
        if given is None:
            return why
        if given < 0:
            return f"{why} Nobody can be served, and nobody can be fewer than that."
        made = [
            mistakes
            for mistakes, exact in _mistaken(config, options).items()
            if given == max(0, math.floor(exact)) != expected
        ]
        if made and (len(made[0]) == 1 or len(made) == 1):  # no guess between two pairs
            return f"{why} {' And: '.join(USER_MISTAKES[mistake] for mistake in made[0])}"
        exact = _users(config, **options)
        if expected and (given == math.ceil(exact) or abs(given - exact) < 0.5):
            return f"{why} Is there room for a whole user more?"
        return why


USER_MISTAKES = {
    "read": "That counts the weights that a step would read and not those held: the input embedding lies there, too.",
    "no weights": "That gives all memory to the caches; the weights lie there too.",
    "no reserve": "That gives away reserve_bytes as well.",
    "query heads": "That keeps keys and values for all query heads; grouped heads have fewer.",
    "keys only": "That counts half of what is cached: there are keys and values.",
    "head size": "The size of a head is config.head_dim, which is not always hidden_size / heads.",
    "one layer": "That is the cache of one layer.",
    "two bytes": "That takes two bytes per cached number, whatever bytes_per_kv says.",
    "tied twice": "A head that shares its weights with the embedding is there once; it was counted twice.",
}


def _configuration(rng, tied: bool) -> dict:
    """What AutoConfig.for_model takes: grouped heads whose size is not hidden_size / heads."""
    key_heads, group = int(rng.choice([4, 8])), int(rng.choice([2, 4]))
    hidden, size = int(rng.choice([1536, 2048, 2560])), int(rng.choice([112, 144]))  # not the usual 64 or 128
    if key_heads * group * size == hidden:
        hidden += 512
    return {
        "model_type": "qwen3" if tied else "llama",
        "vocab_size": int(rng.integers(90, 150)) * 1000,
        "hidden_size": hidden,
        "intermediate_size": int(rng.integers(hidden // 128, hidden // 64)) * 256,
        "num_hidden_layers": int(rng.integers(8, 15)),
        "num_attention_heads": key_heads * group,
        "num_key_value_heads": key_heads,
        "head_dim": size,
        "tie_word_embeddings": tied,
    }


def _sizes(rng) -> dict[str, float]:
    """bytes_per_weight and bytes_per_kv: never the same, and far from those that somebody may take for granted."""
    weight, kv = rng.permutation([0.6875, 1.375]).tolist()
    return {"bytes_per_weight": weight, "bytes_per_kv": kv}


def _telling(rng, tied: bool) -> dict:
    """A configuration and options of max_users where every known mistake, and two, give numbers of their own."""
    while True:
        config = _configuration(rng, tied)
        options = _options(rng, config, users=int(rng.integers(200, 600)) + 0.6)
        exact = _users(config, **options)
        told = [math.floor(exact), math.ceil(exact), *map(math.floor, _mistaken(config, options).values())]
        if len(set(told)) == len(told):
            return {"config": config, "options": options}


def _mistaken(config: dict, options: dict) -> dict[tuple[str, ...], float]:
    """Users, not rounded, by each known mistake and by each pair of them that gives yet another number."""
    exact = _users(config, **options)
    single = {(made,): _users(config, **options, mistakes=(made,)) for made in USER_MISTAKES}
    users = {made: given for made, given in single.items() if given != exact}
    for pair in combinations(USER_MISTAKES, 2):
        given = _users(config, **options, mistakes=pair)
        if given not in (exact, *users.values()):
            users[pair] = given
    return users


def _options(rng, config: dict, *, users: float) -> dict:
    """Options of max_users with room for so many users, about six of them in the bytes of an embedding table."""
    sizes = _sizes(rng)
    bytes_per_weight, bytes_per_kv = sizes["bytes_per_weight"], sizes["bytes_per_kv"]
    table = config["vocab_size"] * config["hidden_size"] * bytes_per_weight
    context = round(table / 6.3 / _kv_numbers(config) / bytes_per_kv)
    user = context * _kv_numbers(config) * bytes_per_kv
    reserve = int(2.5 * user)
    memory = sum(_weights(config)) * bytes_per_weight + reserve + users * user
    return {
        "memory_bytes": int(memory),
        "context": context,
        "reserve_bytes": reserve,
        **sizes,
    }


def _kv_numbers(config: dict) -> int:
    """Numbers that one token leaves in the cache."""
    return 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]


def _weights(config: dict) -> tuple[int, int]:
    """(weights that one forward reads, weights of an input embedding that is not also the head)."""
    return _counted(tuple(config.items()))


@cache
def _counted(config: tuple) -> tuple[int, int]:
    import torch
    import transformers

    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**dict(config)))
    table = 0 if model.config.tie_word_embeddings else model.get_input_embeddings().weight.numel()
    return sum(weight.numel() for weight in model.parameters()) - table, table


def _users(config, *, memory_bytes, context, bytes_per_weight, bytes_per_kv, reserve_bytes, mistakes=()) -> float:
    """Users that fit, not rounded; `mistakes` names some that are made on purpose."""
    read, table = _weights(config)
    weights = 0 if "no weights" in mistakes else read if "read" in mistakes else read + table
    if "tied twice" in mistakes and config["tie_word_embeddings"]:
        weights += config["vocab_size"] * config["hidden_size"]
    factors = {
        "query heads": config["num_attention_heads"] / config["num_key_value_heads"],
        "keys only": 0.5,
        "head size": config["hidden_size"] / config["num_attention_heads"] / config["head_dim"],
        "one layer": 1 / config["num_hidden_layers"],
        "two bytes": 2 / bytes_per_kv,
    }
    user = _kv_numbers(config) * bytes_per_kv * context
    for mistake in factors.keys() & mistakes:
        user *= factors[mistake]
    free = memory_bytes - weights * bytes_per_weight - (0 if "no reserve" in mistakes else reserve_bytes)
    return free / user


class RequestSeconds(Exercise):
    """Machine-seconds that one request occupies at the floor: its own prefill, its share of the decode steps."""

    PREFILL = "prefill: this request alone, at the larger of bytes and operations"
    DECODE = "decode: steps shared by the batch, over a context that grows"

    name = "request_seconds"
    seconds = 60.0  # a right answer may count the weights anew for every step, on a busy machine
    rungs: Mapping[str, float] = {PREFILL: 1, DECODE: 1}
    hints = (
        "For which of the two phases does a machine that serves `batch` requests at once do something that helps all "
        "of them? What does it read once, and what once per request?",
        "The answer's tenth token: how many tokens does it attend to? And when bytes take 3 ms and operations 2 ms, "
        "both under way at once, how long does the step take?",
    )
    tolerance = 0.05

    def challenges(self, rng):
        """Each term of either phase weighs in one of them; no two sizes are alike, and no list of steps is long."""

        def asked(prompt, output, batch, ratio, sizes, **geometry):
            config = _configuration(rng, False) | {"num_attention_heads": 32, "num_key_value_heads": 8}
            config |= {"hidden_size": int(rng.choice([2560, 3072]))}
            config |= {"intermediate_size": int(rng.integers(10, 15)) * 1024} | geometry
            bandwidth = float(rng.uniform(1e12, 3e12))
            return {
                "config": config,
                "machine": {"bandwidth": bandwidth, "operations": bandwidth * float(rng.uniform(*ratio))},
                "options": {
                    "prompt_tokens": int(rng.integers(*prompt)),
                    "output_tokens": int(rng.integers(*output)),
                    "batch": int(rng.integers(*batch)),
                    "bytes_per_weight": sizes[0],
                    "bytes_per_kv": sizes[1],
                },
            }

        gpu, cpu, no_arithmetic, slow = (250, 350), (4, 8), (1e7, 2e7), (0.2, 0.4)  # operations per byte
        yield asked((700, 1000), (20, 30), (24, 40), gpu, (0.5625, 1.0625))  # bytes bound its decode, caches half
        yield asked((3000, 4000), (10, 20), (24, 40), cpu, (1.0625, 0.5625))  # operations do, some of them attention
        yield asked((80, 120), (10, 20), (1, 2), gpu, (1.0625, 0.5625))  # a prompt too short to be bound by operations
        yield asked((20_000, 30_000), (2, 9), (8, 16), cpu, (4.0, 0.5625))  # attention weighs, and a step more is seen
        yield asked((20_000, 30_000), (2, 9), (8, 16), no_arithmetic, (0.5625, 4.0))  # the prompt's own cache weighs
        yield asked((2, 4), (3, 6), (12_000, 20_000), no_arithmetic, (0.5625, 1.0625))  # one token more is seen
        yield asked((1, 3), (2, 4), (2, 5), slow, (1.0625, 0.5625), num_hidden_layers=4)  # the head weighs
        small = {"num_hidden_layers": 4, "hidden_size": 128, "intermediate_size": 256, "vocab_size": 1000}
        wide = {"num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 256}
        yield asked((2, 5), (50, 70), (8, 16), slow, (0.5625, 1.0625), **small, **wide)  # attention's growth weighs

    @staticmethod
    def run(learner, challenge):
        import types

        import transformers

        config = transformers.AutoConfig.for_model(**challenge["config"])
        return learner.request_seconds(config, types.SimpleNamespace(**challenge["machine"]), **challenge["options"])

    def verify(self, challenge, answer):
        pair = numbers(answer)
        expected = _request(challenge)
        for phase, rung in enumerate((self.PREFILL, self.DECODE)):
            if pair is None or len(pair) != 2:
                message = f"return the pair (prefill_s, decode_s); you returned {describe(answer)}."
                yield Rung(rung, False, message)
                continue
            ok = close(pair[phase], expected[phase], relative=self.tolerance)
            yield Rung(rung, ok, self._why(challenge, pair, expected, phase))

    def _why(self, challenge, pair, expected, phase: int) -> str:
        options = challenge["options"]
        why = (
            f"{('prefill', 'decode')[phase]}: {options['prompt_tokens']} tokens in, {options['output_tokens']} out, "
            f"batch {options['batch']}: you gave {pair[phase]:.4g} s, expected {expected[phase]:.4g} s."
        )
        if close(pair[phase], expected[1 - phase], relative=self.tolerance):
            return why + " The two are swapped: the pair is (prefill_s, decode_s)."
        known = []  # (how far off what a mistake gives, what to say of it); the first of two that give the same
        for (mistaken, mistake), meaning in REQUEST_MISTAKES.items():
            value = _request(challenge, mistake)[phase]
            if mistaken == phase and not close(value, expected[phase], relative=self.tolerance):
                known.append((round(abs(pair[phase] / value - 1), 6), meaning))
        off, likely = min(known, key=itemgetter(0))
        return f"{why} {likely}" if off < 0.01 else why


PREFILL, DECODE = 0, 1
TABLE = "The table of the input embedding is in it: a forward looks up one row per token and multiplies with none."
SQUARE = "That is half of attention's operations: 4 L H D per new token and token attended, the prompt's full square."
SWAPPED_SIZES = (
    "The two sizes are swapped: bytes_per_weight is a weight's, bytes_per_kv one of a key's or value's numbers."
)
TWO_BYTES = "That has two bytes per number, as in bfloat16: bytes_per_weight and bytes_per_kv say otherwise."
HIDDEN = "Attention has the hidden size in it, but its heads together are num_attention_heads x head_dim wide."
DIVISION = "That takes hidden size / heads for the head size, but config.head_dim names another."
QUERY_HEADS = "That caches keys and values for every query head: num_key_value_heads is the number of theirs."
NO_HEAD = "The head is not in it: every forward reads it and multiplies one position with it."
ALONE = "The request's own prompt is prefilled alone, not with the batch's."
REQUEST_MISTAKES = {
    (PREFILL, "shared"): "Nobody else's tokens are in this prompt: the prefill is for this request alone.",
    (PREFILL, "head for all"): "The head is needed for the last position only, not for every token of the prompt.",
    (PREFILL, "bytes only"): "That is the time of the bytes; the floor is the larger of bytes and operations.",
    (PREFILL, "operations only"): "That is the time of the operations; the floor is the larger of both.",
    (PREFILL, "added"): "Bytes and operations are under way at the same time: the larger decides, not the sum.",
    (PREFILL, "half"): "A multiply-add counts as two operations.",
    (PREFILL, "half square"): SQUARE,
    (PREFILL, "table read"): TABLE,
    (PREFILL, "table"): TABLE,
    (PREFILL, "together"): ALONE,
    (PREFILL, "times batch"): ALONE,
    (PREFILL, "swapped sizes"): SWAPPED_SIZES,
    (PREFILL, "two bytes"): TWO_BYTES,
    (PREFILL, "two bytes cached"): "That has two bytes per cached number: bytes_per_kv says otherwise.",
    (PREFILL, "two bytes read"): "That has two bytes per weight: bytes_per_weight says otherwise.",
    (PREFILL, "hidden"): HIDDEN,
    (PREFILL, "division"): DIVISION,
    (PREFILL, "query heads"): QUERY_HEADS,
    (PREFILL, "no cache"): "The prompt's own keys and values are among the bytes, and they are not in it.",
    (PREFILL, "no head"): NO_HEAD,
    (DECODE, "not shared"): "A step serves the whole batch with one reading of the weights: whose seconds are these?",
    (DECODE, "fixed context"): "Each token attends to one token more than the one before; the context does not stay.",
    (DECODE, "weights each"): "The weights are read once per step, whatever the batch.",
    (DECODE, "one cache"): "Every request of the batch brings its own keys and values to be read.",
    (DECODE, "bytes only"): "That is the time of the bytes; the floor of a step is the larger of both.",
    (DECODE, "operations only"): "That is the time of the operations; the floor of a step is the larger of both.",
    (DECODE, "added"): "Bytes and operations are under way at the same time: the larger decides, not the sum.",
    (DECODE, "half"): "A multiply-add counts as two operations.",
    (DECODE, "half square"): SQUARE,
    (DECODE, "table read"): TABLE,
    (DECODE, "table"): TABLE,
    (DECODE, "swapped sizes"): SWAPPED_SIZES,
    (DECODE, "two bytes"): TWO_BYTES,
    (DECODE, "two bytes cached"): "That has two bytes per cached number: bytes_per_kv says otherwise.",
    (DECODE, "two bytes read"): "That has two bytes per weight: bytes_per_weight says otherwise.",
    (DECODE, "hidden"): HIDDEN,
    (DECODE, "division"): DIVISION,
    (DECODE, "query heads"): QUERY_HEADS,
    (DECODE, "no cache"): "Every step reads the keys and values of its context, and they are not in it.",
    (DECODE, "no head"): NO_HEAD,
    (DECODE, "one token less"): "A step attends to its own token as well: the first of them to prompt_tokens + 1.",
    (DECODE, "one token more"): "That is a token too many: the first step attends to prompt_tokens + 1.",
    (DECODE, "one step more"): "The prefill gave the first token: how many steps are left for the others?",
}


def _request(challenge, mistake: str = "") -> tuple[float, float]:
    """(prefill, decode) seconds at the floor; `mistake` names one that is made on purpose."""
    config, options = dict(challenge["config"]), challenge["options"]
    prompt, output, batch = (options[name] for name in ("prompt_tokens", "output_tokens", "batch"))
    per_weight, per_kv = options["bytes_per_weight"], options["bytes_per_kv"]
    per_weight = 2.0 if mistake in ("two bytes", "two bytes read") else per_weight
    per_kv = 2.0 if mistake in ("two bytes", "two bytes cached") else per_kv
    per_weight, per_kv = (per_kv, per_weight) if mistake == "swapped sizes" else (per_weight, per_kv)
    read, table = _weights(config)
    head = config["vocab_size"] * config["hidden_size"]
    if mistake == "no head":
        read, head = read - head, 0
    used = read + (table if mistake == "table" else 0)  # weights that multiply
    if mistake == "division":
        config["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
    wide = config["hidden_size"] if mistake == "hidden" else config["num_attention_heads"] * config["head_dim"]
    pair = 4 * config["num_hidden_layers"] * wide
    pair /= 2 if mistake == "half square" else 1
    row = {"no cache": 0, "query heads": config["num_attention_heads"] / config["num_key_value_heads"]}.get(mistake, 1)
    row *= _kv_numbers(config) * per_kv
    weights = (read + (table if "table" in mistake else 0)) * per_weight

    def floor(moved, operations):
        operations = operations / 2 if mistake == "half" else operations
        by_bytes = moved / challenge["machine"]["bandwidth"]
        by_operations = operations / challenge["machine"]["operations"]
        kinds = {"bytes only": by_bytes, "operations only": by_operations, "added": by_bytes + by_operations}
        return kinds.get(mistake, np.maximum(by_bytes, by_operations))

    heads = prompt if mistake == "head for all" else 1
    prompts = batch if mistake == "together" else 1
    operations = 2 * (used - head) * prompt + 2 * head * heads + pair * prompt**2
    prefill = floor(weights + prompts * row * prompt, prompts * operations)
    prefill *= {"shared": 1 / batch, "times batch": batch}.get(mistake, 1)
    context = prompt + np.arange(1, output + (mistake == "one step more")) * (mistake != "fixed context")
    context += {"one token less": -1, "one token more": 1}.get(mistake, 0)
    readers, caches = batch if mistake == "weights each" else 1, 1 if mistake == "one cache" else batch
    steps = floor(readers * weights + caches * row * context, batch * (2 * used + pair * context))
    return float(prefill), float(steps.sum()) / (1 if mistake == "not shared" else batch)


def _floats(value: Any) -> np.ndarray | None:
    """A tensor or array of real numbers in float64, or None."""
    if not hasattr(value, "shape") or "float" not in str(value.dtype):
        return None
    return value.double().cpu().numpy() if hasattr(value, "detach") else value.astype(np.float64)


SIXTEEN_USERS = MarkScheme(
    "sixteen_users",
    points=(
        SchemePoint(
            "Weights and caches are added, 16.06 + 17.18 = 33.2 GB (34.7 with the reserve), and compared with 24: no.",
            earns="8.03e9 weights of two bytes are 16.06 GB, sixteen caches another 17.18: 33.2 GB and the reserve do "
            "not go into 24.",
            does_not="The weights alone take 16 GB in bfloat16, so there is not enough room left for sixteen users.",
        ),
        SchemePoint(
            "The bytes of the cache are derived: keys and values, 32 layers, 8 key/value heads of size 128, 2 bytes "
            "make 131 kB per token, times 8192 tokens 1.07 GB per user.",
            earns="Each token leaves a key and a value of 128 numbers for 8 heads in 32 layers, 131 kB in bfloat16, so "
            "a user of 8192 tokens takes 1.07 GB.",
            does_not="The KV cache of one user with an 8k context takes about a gigabyte.",
        ),
        SchemePoint(
            "Two remedies in numbers: 4.5-bit weights give 21.7 GB, 8-bit weights and cache 16.6 (23.2 and 18.1 with "
            "the reserve); both fit.",
            earns="4.5 bits per weight: 4.5 + 17.2 = 21.7 GB; one byte for weights and cached numbers: 8.0 + 8.6 = "
            "16.6 GB. With the reserve both stay below 24.",
            does_not="Quantized to 4 or 8 bits, the model would fit easily.",
        ),
        SchemePoint(
            "A choice between them and its price: what is left free or what gets worse, with its reason.",
            earns="I take 8 bits for both: it leaves 5.9 GB, ten users more, where 4.5-bit weights leave 0.8 and none. "
            "The price is that every cached key and value is rounded, which I would have to test on long contexts.",
            does_not="I would choose 8 bits for both because it is a good compromise between quality and memory.",
        ),
        SchemePoint(
            "The decode floor of that choice: the weights a step reads and all sixteen caches over the bandwidth of a "
            "named card, in seconds per step or tokens per second.",
            earns="A step reads 7.5 GB of weights (without the embedding table) and 8.6 GB of caches, 16.1 GB; at the "
            "4090's 1008 GB/s no user gets a token more often than every 16 ms.",
            does_not="Decode is memory-bound, so its floor is the bytes over the bandwidth.",
        ),
    ),
    samples=(
        Sample(
            "No. The weights are 8.03e9 x 2 bytes = 16.06 GB. A token leaves 2 x 32 x 8 x 128 numbers, 131 kB in "
            "bfloat16; 8192 tokens are 1.07 GB and sixteen users 17.18 GB. Together 33.2 GB, with the reserve 34.7, in "
            "24. Weights of 4.5 bits bring it to 4.5 + 17.2 = 21.7 GB, one byte for weights and cache to 8.0 + 8.6 = "
            "16.6. Both fit; I take the second. It leaves 5.9 GB beside the reserve, room for ten more users, the "
            "first only 0.8. Its price is rounded keys and values, so I would compare answers on long contexts. A "
            "step then reads 7.5 GB of weights and 8.6 GB of cache: at 300 GB/s (an L4) 54 ms per token at best.",
            awarded=(True, True, True, True, True),
            why="Both terms are derived and added, both remedies worked out, the choice is paid for in what may get "
            "worse, and the floor names bytes and card.",
        ),
        Sample(
            "The weights need 16.06 GB and the KV cache of sixteen users with 8192 tokens each needs 17.18 GB, so "
            "33.2 GB in total, which is more than 24 GB. Therefore the model has to be quantized: with 4.5-bit weights "
            "it is 21.7 GB, with int8 weights and an int8 cache 16.6 GB, so both would fit with the 1.5 GB reserve. I "
            "would choose 4.5-bit weights, as this is a common format and has a good quality. Decode is memory-bound, "
            "so with fewer bytes it also becomes faster.",
            awarded=(True, False, True, False, False),
            why="2: 17.18 is stated, not derived. 4: a choice without its price (it leaves 0.8 GB, not one user more). "
            "5: no bytes, no card, no seconds.",
        ),
    ),
)

CHAPTER = Chapter(
    "03_kv_cache",
    "The KV cache",
    exercises=(CachedAttention(), PreallocatedCache(), ChatTurn(), MaxUsers(), RequestSeconds()),
    written=(SIXTEEN_USERS,),
)
