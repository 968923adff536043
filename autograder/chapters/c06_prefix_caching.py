"""Chapter 06: never prefill the same tokens twice."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import permutations, takewhile
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
    describe,
    number,
    numbers,
)

STACK_VOCABULARY = 4096  # of the shallow stack that is timed
MODULUS = 8191  # of the numbers by which a token and all before it find their keys and values in a table


class BlockHashes(Exercise):
    """Names of full blocks, each chained to its parent's."""

    FULL = "one hash of type bytes for each full block"
    CHAIN = "a hash stands for its block and for all that comes before it"
    TELLS = "other tokens give another hash, the same tokens the same one in every process"

    name = "block_hashes"
    rungs: Mapping[str, float] = {FULL: 1, CHAIN: 1, TELLS: 1}
    seconds = 40.0  # the learner's cells run twice, in two processes
    hints = (
        "Two prompts have the same second block and different first ones. Are the keys and values of that second "
        "block the same? So what must its hash be made from?",
        "How do you turn [1, 23] into bytes so that [12, 3] gives others? And does the built-in hash of a text give "
        "the same number when Python starts again?",
    )

    def challenges(self, rng):
        block = int(rng.integers(3, 6))
        base = _distinct(rng, 3 * block + int(rng.integers(1, block)), 30_000)
        other = _distinct(rng, block, 30_000)
        first, second = base[:block], base[block : 2 * block]
        tail = base[3 * block :]
        texts = {
            "base": (base, block),
            "without the rest": (base[: 3 * block], block),
            "another rest": (base[: 3 * block] + tail[::-1] + other[: block - len(tail)], block),
            "first token": ([base[0] + 1, *base[1:]], block),
            "behind another": (other + second, block),
            "alone": (second, block),
            "again and again": (first * 3, block),
            "too short": (base[: block - 1], block),
            "nothing": ([], block),
            "turned round": (first[::-1], block),
        }
        a, b, c = (1 + rng.permutation(9)[:3]).tolist()
        texts |= {"digits": ([a, 10 * b + c], 2), "digits moved": ([10 * a + b, c], 2)}
        for power in (8, 16):
            texts[f"plus 2**{power}"] = ([first[0] + 2**power, *first[1:]], block)
        texts["many"] = (rng.permutation(60_000)[:1500].tolist(), 1)
        here = Challenge({"texts": texts})
        yield here
        there = dict(reversed(texts.items()))  # nor does the next process meet them in the same order
        yield Challenge({"texts": there}, after=here, decides=(self.TELLS,))

    @staticmethod
    def run(learner, challenge):
        return {name: learner.block_hashes(list(t), block) for name, (t, block) in challenge["texts"].items()}

    def verify(self, challenge, answer):
        strange = next((h for h in answer.values() if not _is_names(h)), None)
        if strange is not None:
            why = f"return a list with one hash (bytes) per full block; you returned {describe(strange)}."
            yield from (Rung(name, False, why) for name in challenge.decides or self.rungs)
            return
        texts, given = challenge["texts"], _comparable(answer)
        if challenge.after is not None:
            complaint = _why_not_again(_comparable(challenge.after.answer), given)
            yield Rung(self.TELLS, complaint is None, complaint or "")
            return
        for rung, complaint in (
            (self.FULL, _why_count(texts, answer)),
            (self.CHAIN, _why_chain(given)),
            (self.TELLS, _why_confused(texts, given)),
        ):
            yield Rung(rung, complaint is None, complaint or "")


def _distinct(rng, tokens: int, vocabulary: int) -> list[int]:
    """So many different tokens."""
    return rng.permutation(vocabulary)[:tokens].tolist()


def _is_names(value: Any) -> bool:
    """Whether this is a list of things that can be compared as hashes are, if not bytes."""
    return isinstance(value, list | tuple) and all(isinstance(h, bytes | str | int) for h in value)


def _comparable(answer: Any) -> dict[str, list[str | bytes]]:
    """Names by text, numbers as texts: those could be chosen such that a set of them takes forever."""
    if not isinstance(answer, dict) or not all(map(_is_names, answer.values())):
        return {}
    return {name: [hex(h) if isinstance(h, int) else h for h in hashes] for name, hashes in answer.items()}


def _why_not_again(here: dict, there: dict) -> str | None:
    """Whether the same texts got other names in another process, where they came in another order."""
    if not here or all(here[name] == there.get(name) for name in here):
        return None  # without names there the first process has been complained about already
    return (
        "another process gave the same blocks other hashes, so two servers, or one started again, could never share a "
        "block. Python salts its built-in hash of texts and bytes anew each time it starts; a number drawn at the "
        "start, or counted up as blocks come, is no name either. What is the same everywhere?"
    )


def _why_count(texts, given) -> str | None:
    """What is wrong with how many hashes there are, or of which type."""
    for name in ("base", "without the rest", "too short", "nothing", "many"):
        (tokens, block), hashes = texts[name], given[name]
        full = len(tokens) // block
        if len(hashes) == full:
            continue
        why = f"{len(tokens)} tokens in blocks of {block}: {len(hashes)} hashes came, expected {full}."
        if len(hashes) == full + 1:
            why += " A block that is not full yet will have other contents soon: what would its hash stand for?"
        return why
    odd = next((h for hashes in given.values() for h in hashes if not isinstance(h, bytes)), None)
    return None if odd is None else f"a hash is bytes; yours is {describe(odd)}, a {type(odd).__name__}."


def _hash(hashes: Sequence, i: int) -> Any:
    return hashes[i] if i < len(hashes) else None


def _why_chain(given) -> str | None:
    """What is wrong with how a hash depends on what stands before and behind its block."""
    base = given["base"]
    if len(base) < 3:
        return f"three full blocks gave {len(base)} hashes."
    for name in ("without the rest", "another rest"):
        if list(base[:3]) != list(given[name][:3]):
            return (
                "two prompts begin with the same three blocks and end differently, and you gave these blocks different "
                "hashes. A block can only be found again if its hash ignores what comes after it."
            )
    if base[1] in (_hash(given["behind another"], 1), _hash(given["alone"], 0)):
        return (
            "the same tokens behind another block, or none, got the same hash. Their keys and values differ, for "
            "each token has attended to all before it. What is the hash of the parent for?"
        )
    changed = [i for i in range(3) if base[i] != _hash(given["first token"], i)]
    if changed != [0, 1, 2]:
        return (
            f"the first token of the prompt was changed, and only the hashes of blocks {[i + 1 for i in changed]} of "
            "3 did. What everything before a block was can reach its hash through its parent's hash."
        )
    if len(set(given["again and again"])) < 3:
        return "one block three times in a row has three pasts, and yours has fewer hashes."
    return None


def _why_confused(texts, given) -> str | None:
    """Whether different blocks got one hash. Only first blocks are compared: they have no parent."""
    pairs = {
        ("digits", "digits moved"): "Their digits in a row are the same. Where does one token end in yours?",
        ("base", "turned round"): "The second is the first turned round: the order of tokens matters.",
        ("base", "plus 2**8"): "One token differs by 256: a token does not fit into one byte.",
        ("base", "plus 2**16"): "One token differs by 65536: vocabularies are larger than two bytes can count.",
    }
    for (one, other), meaning in pairs.items():
        if _hash(given[one], 0) == _hash(given[other], 0) is not None:
            block = texts[other][1]
            return f"{texts[one][0][:block]} and {texts[other][0][:block]} got the same hash. {meaning}"
    if len(set(given["many"])) < len(given["many"]):
        return f"{len(given['many'])} different blocks share {len(set(given['many']))} hashes: too few bits."
    return None


class PrefixCache(Exercise):
    """Keys and values of prompts in blocks that are found by their content, with a budget and eviction."""

    MATCH = "match gives the longest stored prefix, in the order it was stored"
    OWN = "neither what comes out nor what went in can change the store"
    HELD = "blocks of their own are held, of `tokens` only"
    COUNTED = "seen_tokens and hit_tokens count tokens, in match"
    EVICTED = "a full store lets the least recently used block without a stored child go"

    name = "PrefixCache"
    rungs: Mapping[str, float] = {MATCH: 2, OWN: 1, HELD: 1, COUNTED: 1, EVICTED: 2}
    hints = (
        "Blocks A, B and C are stored as one prompt. Another prompt is A, X, C: how far does what you stored help it? "
        "And whose tensors does the caller hold when it goes on generating?",
        "The budget is full. Which blocks could go without making another one unreachable? Which of them was not "
        "used for the longest time, when this very call has used those on its own path?",
    )

    def challenges(self, rng):
        shape = (int(rng.integers(2, 4)), 2, int(rng.choice([4, 8])))
        for rung, scripts in (
            (self.MATCH, _matching_scripts(rng)),
            (self.OWN, _owning_scripts(rng)),
            (self.HELD, _holding_scripts(rng)),
            (self.COUNTED, _counting_scripts(rng)),
            (self.EVICTED, _evicting_scripts(rng) + _random_scripts(rng)),
        ):
            seed = int(rng.integers(1 << 62))  # of keys and values, which nobody can compute from the tokens
            yield Challenge({"shape": shape, "scripts": scripts, "seed": seed}, decides=(rung,))

    @staticmethod
    def run(learner, challenge):
        import numpy as np
        import torch
        import transformers

        from autograder import lab

        layers, heads, size = challenge["shape"]
        rng = np.random.default_rng(challenge["seed"])
        table = rng.standard_normal((layers, 2, heads, 8191, size), dtype=np.float32)

        def states(tokens):
            """(keys, values) [1, K, S, D] of each layer: random numbers that tell a token and all before it."""
            names, name = [], 1
            for token in tokens:
                name = (name * 31 + token + 1) % 8191
                names.append(name)
            return [[torch.tensor(part[None, :, names], device=lab.device()) for part in layer] for layer in table]

        def fill(cache, tokens):
            """Append what a model would: the keys and values of those tokens that the cache lacks."""
            held = int(cache.get_seq_length())
            for layer, (keys, values) in enumerate(states(tokens)):
                cache.update(keys[:, :, held:], values[:, :, held:], layer)
            return cache

        def found(cache):
            """The keys and values of a cache as arrays, or what came instead of a cache."""
            try:
                full = int(cache.get_seq_length()) > 0
                pairs = [(layer.keys, layer.values) for layer in cache.layers] if full else []
            except AttributeError:
                return {"instead": cache}
            return {"layers": [[x.cpu().numpy().copy() for x in pair] for pair in pairs]}

        def spoil(cache):
            for layer in cache.layers:
                for x in (layer.keys, layer.values):
                    if x is not None:
                        x.zero_()

        def perform(store, op):
            """One step of a script: what was found and counted."""
            seen = {"found": None}
            if op["do"] in ("match", "request"):
                cache = store.match(list(op["tokens"]))
                seen["found"] = found(cache)
                if "instead" in seen["found"]:
                    return seen
            else:
                cache = transformers.DynamicCache()
            if op["do"] != "match":
                whole = op["tokens"] + op["after"]
                fill(cache, op["tokens"] if op["do"] == "request" else whole)
                store.insert(list(op["tokens"]), cache)
                fill(cache, whole)  # after a request's insert the model goes on generating
            elif op["after"]:
                fill(cache, op["tokens"] + op["after"])
            if op["spoil"]:
                spoil(cache)
            return seen

        def held_bytes(before, *kept):
            """Of what is alive and was not before, all but the arrays that were kept to be handed back."""
            ours = {x.__array_interface__["data"][0] for found in kept for pair in found["layers"] for x in pair}
            return sum(n for place, n in lab.alive.storages().items() if place not in before and place not in ours)

        results = []
        with torch.inference_mode():
            for script in challenge["scripts"]:
                before = lab.alive.storages() if script["weigh"] else {}
                store = learner.PrefixCache(script["block"], script["most"])
                steps = []
                for op in script["ops"]:
                    step = perform(store, op)
                    step["counts"] = [getattr(store, name, None) for name in ("seen_tokens", "hit_tokens")]
                    steps.append(step)
                    kept = [seen["found"] for seen in steps if seen["found"] and "layers" in seen["found"]]
                    step["bytes"] = held_bytes(before, *kept) if script["weigh"] else 0
                    if step["found"] and "instead" in step["found"]:
                        return {"instead": step["found"]["instead"]}
                results.append(steps)
                del store
        return {"results": results}

    def verify(self, challenge, answer):
        (rung,) = challenge.decides
        if "instead" in answer:
            given = describe(answer["instead"])
            why = f"match returns a DynamicCache, an empty one if nothing is found; yours gave {given}."
            yield Rung(rung, False, why)
            return
        for script, steps in zip(challenge["scripts"], answer["results"], strict=True):
            look = {self.COUNTED: _why_counts, self.HELD: _why_bytes}.get(rung, _why_found)
            if complaint := look(script, steps, challenge):
                yield Rung(rung, False, complaint)
                return
        yield Rung(rung, True)


class _Oracle:
    """What a prefix cache must find, in tokens alone; `mistake` names one that is made on purpose."""

    def __init__(self, block: int, most: int, mistake: str = "") -> None:
        self.block, self.most, self.mistake = block, most, mistake
        self.used: dict[tuple[int, ...], int] = {}  # a block's name is all tokens up to its end -> when it was used
        self.now = 0

    def match(self, tokens: Sequence[int]) -> int:
        """Tokens of the longest stored prefix."""
        path = list(takewhile(self.used.__contains__, self._path(tokens)))
        self._mark(path, "match does not mark")
        return self.block * len(path)

    def insert(self, tokens: Sequence[int]) -> None:
        path = self._path(tokens)
        self._mark([name for name in path if name in self.used], "insert does not mark")
        for name in path:
            if name not in self.used:
                while len(self.used) >= self.most:
                    if not (victims := self._victims(path)):
                        return
                    del self.used[min(victims, key=self.used.get)]
                self.used[name] = self.now

    def _path(self, tokens: Sequence[int]) -> list[tuple[int, ...]]:
        return [tuple(tokens[:end]) for end in range(self.block, len(tokens) + 1, self.block)]

    def _mark(self, names: Sequence[tuple[int, ...]], mistake: str) -> None:
        self.now += 1
        if self.mistake != mistake:
            self.used |= dict.fromkeys(names, self.now)

    def _victims(self, path: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        parents = {name[: -self.block] for name in self.used} if self.mistake != "orphans" else ()
        protected = path if self.mistake != "path not protected" else ()
        return [name for name in self.used if name not in parents and name not in protected]


ORACLE_MISTAKES = ("match does not mark", "insert does not mark", "orphans", "path not protected")


def _op(do: str, tokens: Sequence[int], after: Sequence[int] = (), *, spoil: bool = False) -> dict:
    """One step. do: match, insert, or request (match, prefill the rest, insert). after: tokens generated then.

    spoil: the caller overwrites its own cache with zeros in the end.
    """
    return {"do": do, "tokens": list(tokens), "after": list(after), "spoil": spoil}


def _script(name: str, block: int, most: int, ops: Sequence[dict], *, weigh: bool = False) -> dict:
    return {"name": name, "block": block, "most": most, "ops": list(ops), "weigh": weigh}


class _Blocks:
    """Blocks of tokens that are all different; `blocks("AB")` are the tokens of two of them, one after the other."""

    def __init__(self, rng) -> None:
        self.block = int(rng.integers(3, 6))
        tokens = iter(_distinct(rng, 12 * self.block, 30_000))
        self._of = {letter: [next(tokens) for _ in range(self.block)] for letter in "ABCDEFGHXYZ"}
        self._rest = list(tokens)

    def __call__(self, letters: str, rest: int = 0) -> list[int]:
        """The tokens of these blocks and `rest` more (less than a block)."""
        return [token for letter in letters for token in self._of[letter]] + self._rest[:rest]


def _matching_scripts(rng) -> list[dict]:
    b = _Blocks(rng)
    part = int(rng.integers(1, b.block))
    one = _op("insert", b("ABC", part))
    longest = [one, *(_op("match", t) for t in (b("ABC", part), b("ABX"), b("AB"), b("A", part), b("X"), b("", part)))]
    return [
        _script("empty", b.block, 50, [_op("match", b("AB"))]),
        _script("longest", b.block, 50, longest),
        _script("mismatch", b.block, 50, [one, _op("match", b("AXC"))]),
        _script("offset", b.block, 50, [one, _op("match", b("BC")), _op("match", b("XBC"))]),
        _script(
            "branches",
            b.block,
            50,
            [_op("request", b("ABC")), _op("request", b("ABD", part)), *(_op("match", b(t)) for t in ("ABC", "ABD"))],
        ),
    ]


def _owning_scripts(rng) -> list[dict]:
    b = _Blocks(rng)
    more = b("XYZ")[: 2 * b.block + 1]
    again = [_op("match", b("AB") + more), _op("match", b("AB"))]
    return [
        _script("generates", b.block, 50, [_op("request", b("AB"), more), *again]),
        _script("grows", b.block, 50, [_op("insert", b("AB")), _op("match", b("AB"), more), *again]),
        _script("overwrites", b.block, 50, [_op("insert", b("AB")), _op("match", b("AB"), spoil=True), *again]),
        _script("inserted", b.block, 50, [_op("insert", b("AB", 1), more, spoil=True), *again]),
    ]


def _holding_scripts(rng) -> list[dict]:
    b = _Blocks(rng)
    more = b("XYZ")
    return [
        _script(
            "views", b.block, 2, [_op("insert", b("AB", b.block - 1), more), _op("request", b("AB"), more)], weigh=True
        ),
        _script(
            "pinned", b.block, 3, [_op("insert", b("ABC")), _op("insert", b("DE")), _op("match", b("DE"))], weigh=True
        ),
    ]


def _counting_scripts(rng) -> list[dict]:
    b = _Blocks(rng)
    part = int(rng.integers(1, b.block))
    ops = [_op("match", b("A", part)), _op("insert", b("AB", part)), _op("match", b("ABC", part))]
    return [_script("counts", b.block, 50, [*ops, _op("request", b("AX", part)), _op("match", b("AX"))])]


def _evicting_scripts(rng) -> list[dict]:
    """Short scripts, each for one way of choosing the victim; the first that goes wrong says which."""
    b = _Blocks(rng)

    def script(name: str, most: int, text: str) -> dict:
        ops = [_op({"+": "insert", "?": "match"}[word[0]], b(word[1:])) for word in text.split()]
        return _script(name, b.block, most, ops, weigh=name == "full")

    return [
        script("room", 3, "+ABC ?ABC"),
        script("full", 3, "+ABC +D ?D ?ABC"),
        script("oldest", 2, "+A +B +C ?C ?A ?B"),
        script("matched", 2, "+A +B ?A +C ?A ?B ?C"),
        script("inserted again", 2, "+A +B +A +C ?A ?B ?C"),
        script("leaf", 3, "+AB +AC ?AB +D ?AB ?AC ?D"),
        script("own path", 3, "+A +BC +ADE ?ADE ?B"),
        script("too long", 2, "+ABCD ?ABCD"),
        script("too long beside another", 3, "+X +ABCDE ?X ?ABCDE"),
    ]


def _random_scripts(rng) -> list[dict]:
    """Random traces on which every mistake of `ORACLE_MISTAKES` shows."""
    while True:
        scripts = [_random_script(rng) for _ in range(5)]
        right = [_expected(script) for script in scripts]
        if all([_expected(script, mistake) for script in scripts] != right for mistake in ORACLE_MISTAKES):
            return scripts


def _random_script(rng) -> dict:
    """Requests for prompts that share beginnings, under a tight budget."""
    block, most = int(rng.integers(2, 5)), int(rng.integers(3, 8))
    pool = rng.integers(30_000, size=(3, block)).tolist()
    ops = []
    for _ in range(40):
        blocks = rng.choice([0, 0, 0, 1, 1, 2], size=int(rng.integers(1, 6)))
        tokens = [token for i in blocks for token in pool[i]] + pool[0][: int(rng.integers(block))]
        after = pool[1] * int(rng.integers(2))
        ops.append(_op(str(rng.choice(["request", "request", "match", "insert"])), tokens, after))
    return _script("random", block, most, ops)


def _expected(script: dict, mistake: str = "") -> list[int | None]:
    """Tokens that each step finds (None: it does not look)."""
    oracle, found = _Oracle(script["block"], script["most"], mistake), []
    for op in script["ops"]:
        found.append(oracle.match(op["tokens"]) if op["do"] != "insert" else None)
        if op["do"] != "match":
            oracle.insert(op["tokens"])
    return found


@lru_cache(maxsize=2)
def _table(seed: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Keys and values [layer, part, K, name, D] of everything that can be stored, as `run` draws them."""
    layers, heads, size = shape
    return np.random.default_rng(seed).standard_normal((layers, 2, heads, MODULUS, size), dtype=np.float32)


def _states(tokens: Sequence[int], challenge) -> list[list[np.ndarray]]:
    """What `run` takes for the keys and values [1, K, S, D] of each layer."""
    names, name = [], 1
    for token in tokens:
        name = (name * 31 + token + 1) % MODULUS
        names.append(name)
    table = _table(challenge["seed"], tuple(challenge["shape"]))
    return [[part[None, :, names] for part in layer] for layer in table]


def _letters(script: dict) -> list[str]:
    """The steps in words, each block a letter in the order of appearance: insert ABC+1, match AB."""
    block, names, words = script["block"], {}, []
    for op in script["ops"]:
        text = ""
        for start in range(0, len(op["tokens"]) - block + 1, block):
            text += names.setdefault(tuple(op["tokens"][start : start + block]), chr(65 + len(names)))
        rest = len(op["tokens"]) % block
        words.append(f"{op['do']} {text}" + (f"+{rest}" if rest else ""))
    return words


def _told(script: dict, i: int) -> str:
    """What happened up to the i-th step, as the beginning of a message."""
    words = _letters(script)[: i + 1]
    story = ", ".join(words) if len(words) <= 8 else f"{len(words) - 3} steps, {', '.join(words[-3:])}"
    return f"blocks of {script['block']} tokens (a letter each), room for {script['most']}: {story}: "


def _why_found(script: dict, steps, challenge) -> str | None:
    """The first step of a script that found the wrong prefix, or the wrong keys and values."""
    for i, (op, step, expected) in enumerate(zip(script["ops"], steps, _expected(script), strict=True)):
        if expected is not None:
            layers = step["found"]["layers"]
            found = layers[0][0].shape[2] if layers and layers[0][0].ndim == 4 else 0
            if found != expected:
                why = f"{found} tokens found, expected {expected}."
                return _told(script, i) + why + _why_other(script["name"], found, expected, step, script, challenge)
            if expected and (complaint := _why_states(op, layers, expected, challenge)):
                return _told(script, i) + complaint + CHANGED.get(script["name"], "")
    return None


CHANGED = {
    "overwrites": " The caller wrote into what match had given it, and that was the store itself.",
    "inserted": " The caller wrote into its own cache after insert, and the store still looked at it.",
}


def _why_other(name: str, found: int, expected: int, step, script, challenge) -> str:
    """What the wrong length of a prefix says, by the script in which it came."""
    more = found > expected
    match name:
        case "offset" if more:
            return (
                " The same tokens are stored, but at another place behind others: their keys and values are those of "
                "another text."
            )
        case "mismatch" if more:
            return " After the first block that is not stored nothing more can be used: its past is another one."
        case "longest" | "branches" | "empty" if more:
            return " Only full blocks of this very beginning can be found."
        case "generates" | "inserted" if more:
            return " What was generated after the prompt got into the store: only the blocks of `tokens` belong there."
        case "grows" | "overwrites" if more:
            return " The caller went on with what match had given it, and the store grew: that was the store itself."
        case "room":
            return " There was room for all of them."
        case "full" if more:
            return " More is stored than there is room for."
        case "full" if expected == script["block"]:
            return " A full store still takes what is new: something older has to go."
        case "full":
            return _why_root(step, script, challenge["shape"])
        case "matched":
            return " A match is a use: the blocks it found are not the oldest any more."
        case "inserted again":
            return " An insert is a use of all blocks on its path, of those that were there before as well."
        case "leaf" | "oldest":
            return " Of the blocks without a stored child the one used least recently goes, and only that."
        case "own path":
            return (
                " The path that is being inserted was just used, its oldest block too; mark it before you look for a "
                "victim, and take none from it."
            )
        case "too long" | "too long beside another":
            return (
                " A prompt that needs more blocks than there is room for keeps its beginning: a block of its own path "
                "must not go, and when no other is left, insertion stops."
            )
        case "random":
            return " The same rules in a random trace: which block has no stored child and was used least recently?"
    return ""


def _why_root(step, script, shape) -> str:
    """Nothing is found of a prompt of which only the last block had to go."""
    if step["bytes"] >= 2.5 * _block_bytes(script["block"], shape):
        return (
            " Its first block went, and those behind it are still stored: orphans that no match will ever reach. Which "
            "blocks can go without leaving a child behind?"
        )
    return " One block had to go, the others of that prompt could have stayed."


def _why_states(op: dict, layers, expected: int, challenge) -> str | None:
    """What is wrong with the keys and values of a prefix that has the right length."""
    right = _states(op["tokens"][:expected], challenge)
    if len(layers) != len(right):
        return f"the cache has {len(layers)} layers, the model {len(right)}."
    for layer, (pair, wanted) in enumerate(zip(layers, right, strict=True)):
        for part, name in enumerate(("keys", "values")):
            if np.array_equal(pair[part], wanted[part]):
                continue
            if np.array_equal(pair[part], wanted[1 - part]):
                return f"keys and values are swapped in layer {layer}."
            if pair[part].shape != wanted[part].shape:
                shapes = list(pair[part].shape), list(wanted[part].shape)
                return f"the {name} of layer {layer} have shape {shapes[0]}, expected {shapes[1]}."
            wrong = np.flatnonzero((pair[part] != wanted[part]).any(axis=(0, 1, 3)))
            return f"the {name} of layer {layer} are not those of this text from token {wrong[0]} on."
    return None


def _block_bytes(block: int, shape) -> int:
    """Bytes of one stored block of float32 keys and values."""
    layers, heads, size = shape
    return 2 * layers * heads * size * block * 4


def _why_bytes(script: dict, steps, challenge) -> str | None:
    """Whether the store holds more memory than its blocks take, or none."""
    block, oracle = _block_bytes(script["block"], challenge["shape"]), _Oracle(script["block"], script["most"])
    for i, (op, step, expected) in enumerate(zip(script["ops"], steps, _expected(script), strict=True)):
        if script["name"] == "views" and expected and not step["found"]["layers"]:
            return f"{_told(script, i)}nothing was found of what was inserted: nothing is held."
        if op["do"] != "insert":
            oracle.match(op["tokens"])
        if op["do"] != "match":
            oracle.insert(op["tokens"])
        held = step["bytes"] / block
        if held < 0.5 * len(oracle.used):
            what = f"the bytes of {held:.3g} blocks are held" if held else "nothing is held"
            return (
                f"{_told(script, i)}{what}, and {len(oracle.used)} blocks should be stored. A stored block is a clone "
                "of its keys and values, and match hands out copies of that."
            )
        if held <= script["most"] + 0.25:
            continue
        why = f"the bytes of {held:.3g} blocks are held, and there is room for {script['most']}."
        if script["name"] == "views":
            return (
                f"{_told(script, i)}{why} A slice is a view: it keeps the whole tensor alive that it was cut from, "
                "here with everything generated after the prompt. What makes a tensor of its own of it?"
            )
        return (
            f"{_told(script, i)}{why} Is more stored than there is room for, or does anything keep a tensor alive of "
            "which a part was to go? Each block needs tensors of its own."
        )
    return None


def _why_counts(script: dict, steps, challenge) -> str | None:
    """What is wrong with seen_tokens and hit_tokens, given what match itself found."""
    seen = hits = requests = inserted = full = 0
    for i, (op, step) in enumerate(zip(script["ops"], steps, strict=True)):
        if op["do"] != "match":
            inserted += len(op["tokens"])
        if op["do"] != "insert":
            layers = step["found"]["layers"]
            requests, seen = requests + 1, seen + len(op["tokens"])
            hits += layers[0][0].shape[2] if layers else 0
            full += len(op["tokens"]) // script["block"] * script["block"]
        given = [number(n) for n in step["counts"]]
        if given == [seen, hits]:
            continue
        why = (
            f"seen_tokens is {describe(step['counts'][0])} and hit_tokens {describe(step['counts'][1])}, expected "
            f"{seen} and {hits}."
        )
        if given[0] == requests:
            why += " That counts requests, and a request that found one block of a hundred would count as a hit."
        elif given[0] is not None and given[0] == seen + inserted:
            why += " insert counts as well: only match looks something up."
        elif given[0] == full:
            why += " The tokens behind the last full block were asked for, too."
        elif given[0] == seen and given[1] is not None and given[1] * script["block"] == hits:
            why += " Those are blocks; how many tokens does one have?"
        return _told(script, i) + why
    return None


@dataclass
class _Served:
    """What the judge saw of one request, in order: each forward's (tokens, cached, first position), and inserts."""

    matched: int | None = None  # tokens that match said were found, None when nobody asked
    fed: list[tuple[int, int, int | None]] = field(default_factory=list)
    inserts: list[tuple[list[int], int, int]] = field(default_factory=list)  # tokens, cache's length, forwards before

    @staticmethod
    def all_in(log) -> list[_Served]:
        """One per `begin` in a challenge's log of calls."""
        served: list[_Served] = []
        for name, args, result in log:
            match name:
                case "begin":
                    served.append(_Served())
                case "match":
                    served[-1].matched = result
                case "forward":
                    served[-1].fed.append(args)
                case "insert":
                    served[-1].inserts.append((*args, len(served[-1].fed)))
        return served


class GenerateWithPrefix(Exercise):
    """Greedy generation that forwards only what a prefix cache lacks."""

    RIGHT = "tokens and first logits are those of a request without a prefix cache"
    SUFFIX = "only what the prefix cache lacks is forwarded"
    WHOLE = "a prompt that is stored as a whole forwards between 1 and block_tokens tokens"
    INSERTED = "the prompt is inserted right after its prefill"
    ALTERED = "the stored keys and values are used: altered, they change the logits"

    name = "generate_with_prefix"
    rungs: Mapping[str, float] = {RIGHT: 1, SUFFIX: 1, WHOLE: 1, INSERTED: 1, ALTERED: 1}
    seconds = 40.0
    speed_points = 1
    speed_rung = "the first token comes sooner than by prefilling everything"
    counted = (SUFFIX,)
    minimum_ratio = 2.0
    hints = (
        "The prompt has 11 tokens and match gives a cache of 8. Which slice of the prompt is left, and who counts "
        "the positions from there?",
        "All 12 tokens of a prompt are stored. The first token needs logits, and logits come from a forward: of "
        "which token, and does the cache hold that one already? When exactly does a cache hold the prompt alone?",
    )

    def challenges(self, rng):
        block = int(rng.integers(3, 6))
        a, b, c = (rng.integers(tiny.VOCABULARY, size=5 * block).tolist() for _ in range(3))
        part = int(rng.integers(1, block))
        one = a[: 2 * block + part]
        other = a[: 2 * block] + c[: block + 1]
        mixed = [(one, 4), (b[: 2 * block + 1], 3), (one, 4), (other, 1), (b[: block - 1], 2), (b[: block - 1], 2)]
        yield self._challenge(rng, block, mixed, (self.RIGHT, self.SUFFIX, self.INSERTED), ends=True)
        whole = a[: 3 * block]
        yield self._challenge(rng, block, [(whole, 2), (whole, 3), ([*whole, c[0]], 2)], (self.WHOLE,))
        yield self._challenge(rng, block, [(one, 2), (other, 2)], (self.ALTERED,), altered=True)

    @staticmethod
    def _challenge(rng, block, requests, decides, *, altered=False, ends=False) -> Challenge:
        """altered: what is stored changes before it is found. ends: the first reply has an end-of-sequence token."""
        stored: list[list[int]] = []

        def match(tokens) -> int:
            """Tokens of the longest stored prefix, in full blocks."""
            ids = [int(token) for token in tokens]
            lengths = [0]
            for prompt in stored:
                same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids, prompt, strict=False)))
                lengths.append(same // block * block)
            return max(lengths)

        seed, eos = int(rng.integers(1 << 30)), tiny.VOCABULARY  # a token that never comes
        if ends:
            prompt, n = requests[0]
            eos = tiny.greedy(seed, [prompt], n)[0][n // 2 - 1]
        data = {"seed": seed, "eos": eos, "block": block, "requests": requests, "altered": altered}
        calls = {
            "begin": lambda: None,
            "match": match,
            "insert": lambda tokens, length: stored.append([int(token) for token in tokens]),
            "forward": lambda tokens, cached, position: None,
        }
        return Challenge(data, calls=calls, decides=decides)

    @staticmethod
    def run(learner, challenge):
        import copy

        import torch
        import transformers

        from autograder import lab

        torch.set_num_threads(1)  # on a model this small threads would mostly wait for each other
        model = copy.deepcopy(lab.load_model("shape:tiny", dtype=torch.float32, seed=challenge["seed"]))
        model.config.eos_token_id = model.generation_config.eos_token_id = challenge["eos"]
        carried = []  # tokens of this request's forwards

        def before_forward(decoder, args, kwargs):
            ids = kwargs.get("input_ids", args[0] if args else None)  # [B, T]
            ids = kwargs["inputs_embeds"] if ids is None else ids  # [B, T, E]
            lengths = [x.get_seq_length() for x in (*args, *kwargs.values()) if hasattr(x, "get_seq_length")]
            positions = kwargs.get("position_ids")
            first = None if positions is None or not positions.numel() else int(positions.flatten()[0])
            carried.append((ids.shape[0] * ids.shape[1], int(lengths[0]) if lengths else 0))
            challenge["forward"](*carried[-1], first)

        class Store:
            """A prefix cache whose judge says how much of a prompt is stored."""

            block_tokens, max_blocks = challenge["block"], 1000

            def __init__(self):
                self.kept = []  # (tokens, keys and values of each layer)

            def match(self, tokens):
                tokens = torch.as_tensor(tokens).flatten().tolist()
                n, cache = challenge["match"](tokens), transformers.DynamicCache()
                held = [layers for kept, layers in self.kept if n and kept[:n] == tokens[:n]]
                for layer, (keys, values) in enumerate(held[0] if held else []):
                    keys, values = keys[:, :, :n], values[:, :, :n]
                    cache.update(keys, values.roll(1, dims=-1) if challenge["altered"] else values, layer)
                return cache

            def insert(self, tokens, cache):
                tokens = torch.as_tensor(tokens).flatten().tolist()
                challenge["insert"](tokens, int(cache.get_seq_length()))
                self.kept.append((tokens, [(layer.keys.clone(), layer.values.clone()) for layer in cache.layers]))

        model.model.register_forward_pre_hook(before_forward, with_kwargs=True)
        store, answers = Store(), []
        for prompt, new_tokens in challenge["requests"]:
            challenge["begin"]()
            carried.clear()
            ids = torch.tensor([prompt], device=lab.device())
            try:
                given = learner.generate_with_prefix(model, store, ids, new_tokens)
            except Exception:
                if carried and carried[-1][0] == 0:  # what a model says of no tokens helps nobody
                    answers.append({"empty": carried[-1][1]})
                    continue
                raise
            if isinstance(given, tuple | list) and len(given) == 2:
                answers.append({"tokens": given[0], "logits": given[1]})
            else:
                answers.append({"instead": given})
        return answers

    def verify(self, challenge, answer):
        served = _Served.all_in(challenge.log)
        wrong: dict[str, str] = {}
        for i, ((prompt, n), seen, given) in enumerate(zip(challenge["requests"], served, answer, strict=True)):
            told = f"request {i + 1}, {len(prompt)} tokens, {seen.matched or 0} of them stored: "
            for rung in challenge.decides:
                if complaint := self._look(rung, challenge, i, prompt, n, seen, given):
                    wrong.setdefault(rung, told + complaint)
        for rung in challenge.decides:
            yield Rung(rung, rung not in wrong, wrong.get(rung, ""))

    def _look(self, rung: str, challenge, i: int, prompt, n: int, seen: _Served, given) -> str | None:
        """What one request says about one rung."""
        fed = _why_fed(seen, len(prompt), n, challenge["block"])
        match rung:
            case self.SUFFIX:
                return fed
            case self.INSERTED:
                return _why_inserted(seen, prompt, challenge["block"])
            case self.ALTERED:
                return _why_unaltered(given, challenge, seen) if i else None
        answered = _why_answer(given, challenge["seed"], prompt, n, challenge["eos"])
        if answered and (moved := _why_positions(seen.fed)):
            return moved
        if rung != self.WHOLE:
            return answered
        if i and (seen.matched or 0) < len(prompt) - challenge["block"] and not fed:
            return "it was to be stored as a whole by now. Was it ever inserted?"
        return fed or answered

    workloads = (
        {"shared": 1024, "new": 32},
        {"shared": 4096, "new": 32},
        {"shared": 7680, "new": 32},
    )

    def timed_challenge(self, rng, workload):
        own = rng.integers(STACK_VOCABULARY, size=workload["new"])
        return Challenge({"prompt": np.concatenate([_shared_prefix(workload["shared"]), own])[None]})

    @staticmethod
    def timed_run(learner, challenge, stores=[]):  # noqa: B006 the store outlives a call: later calls find it filled
        import torch
        import transformers

        from autograder import lab

        shape = {"layers": 2, "vocab_size": 4096, "dtype": torch.float32, "seed": 0}
        model = lab.load_model("shape:smollm2-135m", **shape)
        table = model.get_input_embeddings().weight
        if model.lm_head.weight is table:  # random and tied, it would only repeat the last token
            model.lm_head.weight = torch.nn.Parameter(table.roll(1, dims=1), requires_grad=False)

        class Store:
            """A prefix cache of one prompt: the last one of which it knew nothing."""

            block_tokens, max_blocks = 16, 1024

            def __init__(self):
                self.tokens, self.layers, self.found = [], [], 0

            def match(self, tokens):
                tokens, n = torch.as_tensor(tokens).flatten().tolist(), 0
                while n < min(len(tokens), len(self.tokens)) and tokens[n] == self.tokens[n]:
                    n += 1
                self.found = n // self.block_tokens * self.block_tokens
                cache = transformers.DynamicCache()
                for layer, (keys, values) in enumerate(self.layers if self.found else []):
                    cache.update(keys[:, :, : self.found], values[:, :, : self.found], layer)
                return cache

            def insert(self, tokens, cache):
                if not self.found:
                    self.tokens = torch.as_tensor(tokens).flatten().tolist()
                    self.layers = [(layer.keys.clone(), layer.values.clone()) for layer in cache.layers]

        if not stores:
            stores.append(Store())
        ids = torch.as_tensor(challenge["prompt"]).to(lab.device())
        tokens, logits = learner.generate_with_prefix(model, stores[0], ids, 1)
        return tokens, logits

    @staticmethod
    def baseline(challenge):
        import torch

        from autograder import lab

        shape = {"layers": 2, "vocab_size": 4096, "dtype": torch.float32, "seed": 0}
        model = lab.load_model("shape:smollm2-135m", **shape)
        table = model.get_input_embeddings().weight
        if model.lm_head.weight is table:  # as in timed_run
            model.lm_head.weight = torch.nn.Parameter(table.roll(1, dims=1), requires_grad=False)
        ids = torch.as_tensor(challenge["prompt"]).to(lab.device())
        with torch.inference_mode():
            logits = lab.forward(model, ids, lab.new_cache(model))[0, -1]  # [V], from the whole prompt every time
        return [int(logits.argmax())], logits

    def agrees(self, challenge, answer, expected):
        tokens, logits = expected
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            return f"return the tuple (tokens, first_logits); you returned {describe(answer)}."
        right = _floats(logits)
        first, second = np.sort(right)[:-3:-1]
        margins = [(first - second) / right.std()]
        return _why_logits(answer[1], right) or _why_tokens(answer[0], tokens, margins)


@cache
def _shared_prefix(tokens: int) -> np.ndarray:
    """The beginning that all timed prompts share, drawn once per judge.

    Whoever knows it gains nothing: its keys and values are stored before the clock starts, for everybody. What follows
    it is new in every call.
    """
    return np.random.default_rng(secrets.randbits(128)).integers(STACK_VOCABULARY, size=tokens)


def _why_answer(given, seed: int, prompt: list[int], n: int, eos: int | None = None) -> str | None:
    """What is wrong with what one request returned."""
    if "empty" in given:
        return (
            f"a forward carried no token, on top of {given['empty']} cached ones. All of the prompt is stored, and "
            "there are no logits without a forward: what can be fed once more?"
        )
    if "instead" in given:
        return f"return the tuple (tokens, first_logits); you returned {describe(given['instead'])}."
    logits, tokens, margins = _uncached(seed, tuple(prompt), n)
    return _why_logits(given["logits"], logits) or _why_tokens(given["tokens"], tokens, margins, eos)


@cache
def _uncached(seed: int, prompt: tuple[int, ...], n: int) -> tuple[np.ndarray, list[int], list[float]]:
    """First logits [V], greedy tokens and their margins of a request that stores nothing."""
    tokens, margins = tiny.greedy(seed, [list(prompt)], n)
    return _tiny_logits(seed, list(prompt), None), tokens, margins


def _tiny_logits(seed: int, ids: list[int], kv) -> np.ndarray:
    """Logits [V] of the last of these tokens by shape:tiny, on top of a cache or none."""
    import torch

    from autograder import lab

    model = lab.load_model("shape:tiny", dtype=torch.float32, seed=seed)
    with torch.inference_mode():
        return _floats(lab.forward(model, torch.tensor([ids], device=lab.device()), kv)[0, -1])


def _why_logits(given, expected: np.ndarray) -> str | None:
    """What is wrong with first_logits [V]; they may come as [1, V] or [1, 1, V]."""
    logits = _floats(given)
    if logits is None or logits.size != expected.size:
        return (
            f"first_logits are the {expected.size} logits of the first new token, [V]; you returned {describe(given)}."
        )
    off = float(np.abs(logits.reshape(-1) - expected).max() / expected.std())
    if off < 1e-3:
        return None
    return (
        f"first_logits are off by {off:.2g} of their deviation. Has the model seen the whole prompt, each token once "
        "and at its own position, and are these the logits behind its last token?"
    )


def _why_tokens(given, expected: list[int], margins: list[float], eos: int | None = None) -> str | None:
    """The first token that is not the greedy one; after a near tie any will do."""
    if getattr(given, "ndim", 1) == 2 and len(given) == 1:
        given = given[0]
    tokens = numbers(given)
    if tokens and len(tokens) < len(expected) and tokens[-1] == eos:
        return f"{len(tokens)} tokens came, {len(expected)} were asked for: it stopped at the end-of-sequence token."
    if tokens is None or len(tokens) != len(expected):
        return f"tokens are a list of {len(expected)} ints; you returned {describe(given)}."
    for i, (token, right, margin) in enumerate(zip(tokens, expected, margins, strict=True)):
        if margin <= 1e-3:
            return None
        if token != right:
            return f"token {i + 1} is {describe(token)}, greedy is {right}."
    return None


def _why_fed(seen: _Served, tokens: int, n: int, block: int) -> str | None:
    """What is wrong with the forwards of a request for `n` new tokens."""
    if not seen.fed:
        return "the model was never called. Logits kept from an earlier request are not those of this one."
    if seen.matched is None:
        return "prefix_cache.match was never asked."
    new, cached = seen.fed[0][:2]
    if new == 0:
        return (
            f"a forward carried no token, on top of {cached} cached ones. There are no logits without a forward: what "
            "can be fed once more?"
        )
    if cached == 0 and new == tokens and seen.matched:
        return f"all {tokens} tokens were prefilled, though {seen.matched} of them were stored."
    if cached and new == tokens:
        return f"the whole prompt went in on top of {cached} cached tokens. What does the cache lack?"
    if cached >= tokens:
        return (
            f"a token went in on top of all {tokens} of the prompt. If it is the prompt's last, it stands in the cache "
            "twice; if it is a new one, where did its logits come from? Those of an earlier request are not this one's."
        )
    whole = seen.matched == tokens
    steps = [forward[:2] for forward in seen.fed]
    first = next((i for i, (fed, held) in enumerate(steps) if fed + held >= tokens), len(steps) - 1)
    fed = sum(count for count, _ in steps[: first + 1])
    if whole and not 1 <= fed <= block:
        return f"all of it is stored, and {fed} tokens went in; between 1 and {block} are enough."
    if not whole and (fed, cached) != (tokens - seen.matched, seen.matched):
        return f"{fed} tokens went in on top of {cached}; expected {tokens - seen.matched} on top of {seen.matched}."
    if fed + cached != tokens:
        return f"{fed} tokens went in on top of {cached}, and the prompt has {tokens}."
    if steps[first + 1 :] != [(1, tokens + i) for i in range(n - 1)]:
        return f"{len(steps)} forwards for {n} tokens: after the prefill each further token costs one, and no more."
    return None


def _why_inserted(seen: _Served, prompt: list[int], block: int) -> str | None:
    """Whether the prompt, and nothing else, was handed to the prefix cache when its prefill was over."""
    if not seen.inserts and (seen.matched or 0) > len(prompt) - block:
        return None  # there is no new full block
    if not seen.inserts:
        return "the prompt was never inserted, so the next request that begins like it prefills all again."
    tokens, length, forwards = seen.inserts[0]
    if list(tokens) != prompt:
        what = f"{len(tokens)} token" + "s" * (len(tokens) != 1)
        if list(tokens) == prompt[-len(tokens) :]:
            what += ", the end of the prompt: it is found by its beginning"
        elif list(tokens[: len(prompt)]) == prompt:
            what += ", the prompt and what was generated"
        return f"insert got {what}. It takes all {len(prompt)} tokens of the prompt."
    if length < len(prompt):
        return f"at insert the cache held {length} tokens, the prompt has {len(prompt)}: its prefill was not over."
    if length > len(prompt) or (forwards and _decoded(seen, len(prompt), forwards)):
        return (
            f"at insert the cache held {length} tokens and the prompt has {len(prompt)}: others waited for this "
            "request's whole answer. When is the prompt complete?"
        )
    return None


def _decoded(seen: _Served, tokens: int, forwards: int) -> bool:
    """Whether a further token had been computed in the first so many forwards."""
    return any(cached >= tokens for _, cached, _ in seen.fed[:forwards])


def _why_positions(fed) -> str | None:
    """Whether a forward said that it starts at another position than behind what is cached."""
    for _, cached, position in fed:
        if position is not None and position != cached:
            return (
                f"a forward said that it starts at position {position} with {cached} tokens cached. Positions go on "
                "where the stored prefix stops; leave them out and the model counts itself."
            )
    return None


def _why_unaltered(given, challenge, seen: _Served) -> str | None:
    """Whether logits ignore that the stored values were altered before this request."""
    if "logits" not in given:
        return _why_answer(given, challenge["seed"], *challenge["requests"][1])
    (earlier, _), (prompt, n) = challenge["requests"]
    cached = seen.fed[0][1] if seen.fed else 0
    right = _uncached(challenge["seed"], tuple(prompt), n)[0]
    logits = _floats(given["logits"])
    if logits is None or logits.size != right.size:
        return _why_logits(given["logits"], right)
    if np.abs(logits.reshape(-1) - right).max() / right.std() < 1e-3:
        return (
            "the stored values were altered before this request, and its logits stayed the same: they were not "
            "computed from what match returned."
        )
    altered = _altered_logits(challenge["seed"], tuple(earlier), tuple(prompt), cached)
    off = np.abs(logits.reshape(-1) - altered).max() / altered.std()
    if off < 1e-3:
        return None
    return (
        f"the stored values were altered before this request, and its logits are off by {off:.2g} from those that "
        "follow from them. Does the model attend to all that match returned, and to nothing else?"
    )


@cache
def _altered_logits(seed: int, earlier: tuple[int, ...], prompt: tuple[int, ...], cached: int) -> np.ndarray:
    """First logits when the first `cached` tokens' values are turned by one place, as `run` does."""
    import transformers

    kv, altered = transformers.DynamicCache(), transformers.DynamicCache()
    _tiny_logits(seed, list(earlier), kv)
    for layer, held in enumerate(kv.layers):
        altered.update(held.keys[:, :, :cached], held.values[:, :, :cached].roll(1, dims=-1), layer)
    return _tiny_logits(seed, list(prompt[cached:]), altered)


class OrderPrompt(Exercise):
    """The order of a prompt's parts that lets most tokens be reused from one request to the next."""

    ALL = "every part is there, once"
    BEST = "no other order reuses more tokens"
    SURE = "nor where parts never change, or always do"

    name = "order_prompt"
    rungs: Mapping[str, float] = {ALL: 1, BEST: 2, SURE: 1}
    hints = (
        "A part can be reused only if it and all before it are as they were. Two parts, 10 tokens at p = 0.9 and "
        "1000 at 0.8: write down what both orders reuse. Which comes first?",
        "At most six parts: how many orders are there? Or: when does it pay to swap two neighbours, and what does "
        "that say about each of them alone?",
    )

    def challenges(self, rng):
        yield Challenge({"prompts": [_parts(rng, 1), [], _parts(rng, 6)]}, decides=(self.ALL,))
        yield Challenge({"prompts": _telling_prompts(rng)}, decides=(self.BEST,))
        yield Challenge({"prompts": _sure_prompts(rng)}, decides=(self.SURE,))

    @staticmethod
    def run(learner, challenge):
        return [learner.order_prompt([tuple(part) for part in parts]) for parts in challenge["prompts"]]

    def verify(self, challenge, answer):
        (rung,) = challenge.decides
        for parts, given in zip(challenge["prompts"], answer, strict=True):
            complaint = _why_parts(parts, given)
            if complaint is None and rung != self.ALL:
                complaint = _why_order(parts, _ordered(parts, given))
            if complaint:
                yield Rung(rung, False, complaint)
                return
        yield Rung(rung, True)


NAMES = ("instructions", "tools", "examples", "documents", "user profile", "date", "history", "question")
Part = tuple[str, int, float]


def _parts(rng, n: int) -> list[Part]:
    """So many parts with different names, lengths and probabilities."""
    names = [str(name) for name in rng.permutation(NAMES)[:n]]
    tokens = [int(t) for t in np.exp(rng.uniform(math.log(5), math.log(3000), n))]
    return [(names[i], tokens[i], round(float(rng.uniform(0.05, 0.98)), 3)) for i in range(n)]


def _sure_prompts(rng) -> list[list[Part]]:
    """Prompts with parts that never change (p = 1) or always do (p = 0), the worst order given."""
    size = {0.0: (1000, 3000), 0.5: (100, 300), 1.0: (5, 20)}  # the longest first would be wrong, too
    kinds = ((0.0, 0.5, 1.0), (0.0, 1.0, 1.0), (0.0, 0.0, 0.5, 1.0), (0.5, 1.0), (1.0, 1.0, 1.0), (0.0, 0.0))
    prompts = []
    for kind in kinds:
        names = [str(name) for name in rng.permutation(NAMES)[: len(kind)]]
        prompts.append([(name, int(rng.integers(*size[p])), p) for name, p in zip(names, kind, strict=True)])
    return prompts


def _telling_prompts(rng) -> list[list[Part]]:
    """Prompts on which each usual rule reuses clearly less than the best order."""
    prompts = []
    for rule in (*ORDER_MISTAKES, None):
        while True:
            parts = _parts(rng, int(rng.integers(4, 7)))
            orders = [key(parts) for name, (key, _) in ORDER_MISTAKES.items() if rule in (None, name)]
            differ = len({tuple(order) for order in orders}) == len(orders)
            if differ and all(_reused(order) < 0.97 * _reused(_best(parts)) for order in orders):
                prompts.append(parts)
                break
    return prompts[::-1]  # the one on which all rules lose comes first


def _reused(parts: Sequence[Part]) -> float:
    """Expected tokens reused: each part's, times the probability that it and all before it are unchanged."""
    unchanged, total = 1.0, 0.0
    for _, tokens, p in parts:
        unchanged *= p
        total += tokens * unchanged
    return total


def _best(parts: Sequence[Part]) -> Sequence[Part]:
    return max(permutations(parts), key=_reused)


def _by(key):
    return lambda parts: sorted(parts, key=key, reverse=True)


ORDER_MISTAKES = {
    "p": (
        _by(lambda part: part[2]),
        "That is sorted by p alone: a long part that changes a little more often may be worth more in front.",
    ),
    "volatile first": (
        _by(lambda part: -part[2]),
        "What changes most comes first, and everything behind it is lost with it.",
    ),
    "longest": (
        _by(lambda part: part[1]),
        "That is the longest first, however often it changes: what stands behind it is lost with it.",
    ),
    "shortest": (
        _by(lambda part: -part[1]),
        "That is the shortest first: the long parts are lost with any of them.",
    ),
    "n p": (
        _by(lambda part: part[1] * part[2]),
        "That is sorted by tokens x p: what a part gains by standing first; what do those behind it lose by that?",
    ),
    "n (1 - p)": (
        _by(lambda part: -part[1] * (1 - part[2])),
        "That is sorted by the tokens a part loses itself; those behind it are lost as well.",
    ),
    "as given": (list, "That is the order in which they came."),
}


def _ordered(parts: Sequence[Part], given) -> list[Part]:
    """The parts as the learner ordered them, by name."""
    of = {part[0]: part for part in parts}
    return [of[_name_of(item)] for item in given]


def _name_of(item) -> Any:
    """The name of a part, which may have been given back by its name alone."""
    return item[0] if isinstance(item, list | tuple) and len(item) == 3 else item


def _why_parts(parts: Sequence[Part], given) -> str | None:
    if not isinstance(given, list | tuple):
        return f"return a list of the parts; you returned {describe(given)}."
    names = [_name_of(item) for item in given]
    if not all(isinstance(name, str) for name in names):
        return f"return the parts (name, tokens, p_unchanged) in another order; you returned {describe(given)}."
    if sorted(names) != sorted(part[0] for part in parts):
        told = ", ".join(names) or "none"
        return f"{len(parts)} parts came, you returned {len(names)}: {told}. Each belongs there once."
    return None


def _why_order(parts: Sequence[Part], order: Sequence[Part]) -> str | None:
    """What is wrong with an order that reuses less than the best one does."""
    got, best = _reused(order), _reused(_best(parts))
    if got >= best * (1 - 1e-9) - 1e-9:
        return None
    told = ", ".join(f"{name} ({tokens} tokens, p {p:g})" for name, tokens, p in order)
    why = f"{told}: {got:.1f} tokens are reused on average, and {best:.1f} could be."
    for key, meaning in ORDER_MISTAKES.values():
        if [part[0] for part in key(parts)] == [part[0] for part in order]:
            return f"{why} {meaning}"
    return why


def _floats(value: Any) -> np.ndarray | None:
    """A tensor or array of real numbers in float64, or None."""
    if not hasattr(value, "shape") or "float" not in str(value.dtype):
        return None
    return value.detach().double().cpu().numpy() if hasattr(value, "detach") else value.astype(np.float64)


CUT_TIME_TO_FIRST_TOKEN = MarkScheme(
    "cut_time_to_first_token",
    points=(
        SchemePoint(
            "Shorten: every prompt token that is prefilled adds its arithmetic to the wait (beyond the bend); said "
            "for traffic whose prompts are long and have little in common.",
            earns="Each user sends another contract of 6000 tokens; nothing is shared, every token is multiplied with "
            "every weight before the first word, so sending the two relevant pages cuts the wait to about a "
            "sixth.",
            does_not="A shorter prompt gives a lower time to first token.",
        ),
        SchemePoint(
            "Reuse: keys and values of a beginning depend on nothing behind it, so a shared one is computed once; "
            "said for traffic in which it comes first and stays the same, token by token.",
            earns="Our 1000 tokens of instructions open every request, and as their keys and values depend on nothing "
            "that follows, they are computed once; the date had to move behind them.",
            does_not="With prefix caching the system prompt is cached, which makes the first token much faster.",
        ),
        SchemePoint(
            "Stream: the first token comes no earlier, but it ends the wait instead of the last one; for people who "
            "read, not for programs that need the whole answer.",
            earns="Streaming changes no computation: a reader of a 300-token answer starts after 1.5 s instead of 14; "
            "the nightly job that parses JSON gains nothing.",
            does_not="Streaming the answer reduces the time to first token.",
        ),
        SchemePoint(
            "Isolate: a short request behind a long prefill waits for it; pieces or a lane of its own end that, and "
            "what either costs is said.",
            earns="Behind a prompt of 8000 tokens the short question waits for all of it; prefilled in pieces it "
            "waits for one, and the long request's first token comes later by the questions let in between.",
            does_not="Long and short requests should be separated so that they do not disturb each other.",
        ),
        SchemePoint(
            "The answer to chapter 01's question revised: the tokens that are *not kept* set the time to first token, "
            "while a further token reads weights and the whole cache, reused or not; with one number of their own.",
            earns="I wrote that prompt length sets the first token's time. It is the part nobody has prefilled: 1056 "
            "tokens took 1495 ms, and 115 ms with 1024 of them kept; a further token took the same after both, "
            "for it reads all weights and all 1056 rows either way.",
            does_not="As I said in chapter 01, prefill is compute-bound and decode is memory-bound.",
        ),
    ),
    samples=(
        Sample(
            "Our help desk has 1000 tokens of instructions before each 30-token question. Keys and values of a "
            "beginning do not depend on what follows, so I would keep them, and move name and date behind them: 1495 "
            "ms without, 115 ms with 1024 tokens kept. Contracts that customers paste in are new every time; there "
            "every token is multiplied through all weights first, and only sending fewer helps. They also block "
            "others: a question behind 8000 tokens waits for all of them, so I would prefill in pieces, and the "
            "contract's sender waits a little longer for each question let in. Streaming computes nothing sooner, but "
            "a reader's wait ends with the first word instead of the last; our JSON export gains nothing. My answer "
            "to 01 becomes: the tokens nobody has prefilled set the time to first token; a further token reads all "
            "weights and the whole cache as before.",
            awarded=(True, True, True, True, True),
            why="Each lever has its cause, its traffic and its limit; the revision says what is different, with a "
            "measured pair of numbers.",
        ),
        Sample(
            "There are four ways. First, shorten the prompt, because prefill is compute-bound. Second, use prefix "
            "caching: the keys and values of the system prompt do not depend on the user's question, so if the system "
            "prompt always comes first and unchanged they can be reused; in my measurement the time fell from 1495 to "
            "115 ms. Third, stream the tokens, so the user sees the first token earlier. Fourth, put long requests "
            "into a separate queue so that short ones are not blocked by them. All in all, time to first token "
            "depends on the prompt length, and time per token does not.",
            awarded=(False, True, False, False, False),
            why="1: no traffic, and a term for a cause. 3: seen earlier but computed no earlier, and whom that helps "
            "is not said. 4: nothing on what it costs. 5: the old answer, although the number shows that it is not the "
            "length.",
        ),
    ),
)

CHAPTER = Chapter(
    "06_prefix_caching",
    "Prefix caching",
    exercises=(BlockHashes(), PrefixCache(), GenerateWithPrefix(), OrderPrompt()),
    written=(CUT_TIME_TO_FIRST_TOKEN,),
)
