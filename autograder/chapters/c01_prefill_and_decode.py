"""Chapter 01: why prompt length changes the time to the first token but barely the time per output token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autograder.chapters import tiny
from autograder.chapters.devices import VirtualDevice
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
    numbers,
)

MOST_TOKENS = 10_000  # of one scripted answer
TOO_OFTEN = 10  # times as many calls as a sweep with one warm-up needs
STACK_VOCABULARY = 4096  # of the shallow stack that is timed


class LatencyMetrics(Exercise):
    """Latency of one streamed request, in seconds. TPOT = (last - first) / (N - 1)."""

    ENDS = "ttft counts from sending to the first token, e2e to the last"
    TPOT = "tpot is the mean time per token after the first"
    ITL = "itl has one gap fewer than tokens"
    EDGES = "one token has no time per output token, and no tokens is a ValueError"

    name = "latency_metrics"
    rungs: Mapping[str, float] = {ENDS: 1, TPOT: 2, ITL: 1, EDGES: 1}
    hints = (
        "Draw the timeline of one request with three tokens. Which stretch did the user wait for before "
        "anything appeared, and which stretches came after?",
        "Three tokens: how many gaps lie between them? What would you divide by, and what is left to divide "
        "when there is only one token?",
    )

    def challenges(self, rng):
        for tokens in (3, int(rng.integers(8, 40))):
            yield Challenge(self._log(rng, tokens), decides=(self.ENDS, self.TPOT, self.ITL))
        for tokens in (1, 0):
            yield Challenge(self._log(rng, tokens), decides=(self.EDGES,), may_raise=tokens == 0)

    @staticmethod
    def _log(rng, tokens: int) -> dict:
        sent = float(rng.uniform(10, 1000))
        waits = np.append(rng.uniform(0.5, 2.0, min(tokens, 1)), rng.uniform(0.01, 0.2, max(tokens - 1, 0)))
        return {"sent": sent, "token_times": (sent + np.cumsum(waits)).tolist()}

    @staticmethod
    def run(learner, challenge):
        try:
            return {"returned": learner.latency_metrics(challenge["sent"], challenge["token_times"])}
        except ValueError:
            if challenge["token_times"]:
                raise
            return "ValueError"

    def verify(self, challenge, answer):
        sent, times = challenge["sent"], challenge["token_times"]
        raised = isinstance(answer, str)  # what the learner returned comes in a dict of ours
        answer = answer["returned"] if isinstance(answer, dict) else answer
        if not times:
            yield Rung(self.EDGES, raised, self._why_no_tokens(answer))
        elif complaint := self._not_a_report(answer):
            yield from (Rung(name, False, complaint) for name in challenge.decides)
        elif len(times) == 1:
            gaps = numbers(answer["itl"])
            yield Rung(self.EDGES, answer["tpot"] is None and gaps == [], self._why_one_token(answer))
        else:
            tokens, expected_gaps = len(times), np.diff(times)
            yield Rung(self.ENDS, *self._ends(answer, sent, times))
            yield Rung(
                self.TPOT,
                close(answer["tpot"], expected_gaps.mean()),
                self._why_tpot(answer["tpot"], sent, times),
            )
            gaps = numbers(answer["itl"])
            ok = gaps is not None and len(gaps) == tokens - 1 and np.allclose(gaps, expected_gaps, 1e-6)
            yield Rung(self.ITL, bool(ok), self._why_itl(answer["itl"], gaps, sent, times))

    @staticmethod
    def _not_a_report(answer) -> str | None:
        if not isinstance(answer, dict):
            return f"latency_metrics must return a dict; it returned {describe(answer)}."
        missing = [key for key in ("ttft", "tpot", "itl", "e2e") if key not in answer]
        return f"The dict has no {' and no '.join(map(repr, missing))}." if missing else None

    @staticmethod
    def _why_no_tokens(answer) -> str:
        return (
            f"For an empty list of token times you gave {describe(answer)}. A request without tokens has no "
            "latency to report: raise ValueError before anything else."
        )

    @staticmethod
    def _why_one_token(answer) -> str:
        if answer["tpot"] is not None:
            return (
                f"For one token, tpot is {describe(answer['tpot'])}, expected None. Nothing came after the "
                "first token, so there is no time per further token; a 0 would make an average look faster."
            )
        return f"For one token, itl is {describe(answer['itl'])}, expected []: one token has no gap."

    @staticmethod
    def _ends(answer, sent, times) -> tuple[bool, str]:
        for key, expected in (("ttft", times[0] - sent), ("e2e", times[-1] - sent)):
            if close(answer[key], expected):
                continue
            given = describe(answer[key])
            why = f"{key}: for {len(times)} tokens you gave {given}, expected {expected:.4g} s."
            if close(answer[key], expected + sent):
                why += " That is a moment on the server's clock: how long after sending was it?"
            elif close(answer[key], times[-1] - times[0]):
                why += " That leaves out the wait for the first token."
            elif close(answer[key], expected, relative=1e-2):
                why += " That is close, but rounded: float32 keeps only seven digits of a time stamp."
            return False, why
        return True, ""

    @staticmethod
    def _why_tpot(value, sent, times) -> str:
        n, whole, after = len(times), times[-1] - sent, times[-1] - times[0]
        why = f"tpot: for {n} tokens you gave {describe(value)}, expected {after / (n - 1):.4g} s."
        if value is None:
            return why + " None is for a request with one token only."
        if close(value, whole / n):
            return (
                f"{why} {whole:.4g} / {n} is the whole time over all tokens: the first token's wait is "
                "already in ttft. What is left, and how many gaps are there?"
            )
        if close(value, whole / (n - 1)):
            return why + " The first token's wait is still in there, but it is already in ttft."
        if close(value, after / n):
            return f"{why} {after:.4g} / {n} divides by the tokens. How many gaps lie between {n} tokens?"
        if close(value, after):
            return why + " That is the sum of all gaps; tpot is their mean."
        if close(value, float(np.median(np.diff(times)))):
            return why + " That is the median of the gaps; tpot is their mean."
        if close(value, after / (n - 1), relative=1e-2):
            return why + " That is close, but rounded: float32 keeps only seven digits of a time stamp."
        return why

    @staticmethod
    def _why_itl(value, gaps, sent, times) -> str:
        n = len(times)
        why = f"itl: for {n} tokens you gave {describe(value)}, expected a list of {n - 1} gaps in seconds."
        if gaps is None:
            return why
        if len(gaps) == n and close(gaps[0], times[0] - sent):
            return why + " The first is the first token's wait: no token came before it, so it is no gap."
        if len(gaps) == n - 1 and np.allclose(gaps, -np.diff(times)):
            return why + " The sign is wrong: later minus earlier."
        if len(gaps) == n - 1 and np.allclose(gaps, np.subtract(times[1:], sent)):
            return why + " These count from sending; a gap counts from the token before."
        if len(gaps) == n - 1 and np.allclose(gaps, np.diff(times), rtol=1e-2):
            return why + " They are close, but rounded: float32 keeps only seven digits of a time stamp."
        if len(gaps) == n - 1:
            return why + f" The first is {gaps[0]:.4g}, expected {times[1] - times[0]:.4g}."
        return why


@dataclass
class _Request:
    """What the judge saw of one request: forwards (tokens, cached), rows into the head, clock readings."""

    fed: list[tuple[int, int]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    grad: bool = False
    queued: bool = True  # the device is busy with somebody else's work when a request arrives
    readings: dict[float, tuple[int, int, bool]] = field(default_factory=dict)  # forwards, heads, queued

    @staticmethod
    def all_in(log) -> list[_Request]:
        """One per `begin` in a challenge's log of calls."""
        requests = []
        for name, args, result in log:
            if name == "begin":
                requests.append(_Request())
            elif name == "forward":
                tokens, cached, grad = args
                requests[-1].fed.append((tokens, cached))
                requests[-1].grad |= grad
                requests[-1].queued = True
            elif name == "head":
                requests[-1].rows.append(args[0])
                requests[-1].queued = True
            elif name == "sync":
                requests[-1].queued = False
            elif name == "clock":
                seen = requests[-1]
                seen.readings[result] = (len(seen.fed), len(seen.rows), seen.queued)
        return requests


class GenerateTimed(Exercise):
    """Greedy generation with a cache, one forward per token, the clock read when each token is there."""

    TOKENS = "the tokens are the model's greedy ones"
    FORWARDS = "N tokens cost N forwards: one prefill, then one token each"
    HEAD = "one row enters the head per forward"
    GRAD = "no gradient is recorded"
    TIMES = "sent and every token time are read when it has really happened"

    name = "generate_timed"
    rungs: Mapping[str, float] = {TOKENS: 1, FORWARDS: 2, HEAD: 1, GRAD: 1, TIMES: 1}
    speed_points = 2
    speed_rung = "faster than feeding the whole sequence every step"
    counted = (FORWARDS, HEAD)
    minimum_ratio = 2.0
    seconds = 60.0  # a second or two on an idle machine; a crowded one must not cost marks
    hints = (
        "The prefill already predicts a token. From which position, and what must the model still be given to "
        "predict the next?",
        "A clock only reads; a device works through a queue. Between asking for a token and writing down "
        "when it came, what has to happen? And whose cache is it when the next request arrives?",
    )

    def challenges(self, rng):
        yield self._challenge(rng, [(int(rng.integers(6, 10)), 6), (int(rng.integers(10, 14)), 5)])
        edges = self._challenge(rng, [(1, 5), (int(rng.integers(30, 50)), 1)])
        edges.decides = (self.TOKENS, self.FORWARDS, self.TIMES)
        yield edges
        yield self._challenge(rng, [(int(rng.integers(14, 24)), int(rng.integers(12, 18)))])

    @classmethod
    def _challenge(cls, rng, sizes) -> Challenge:
        seed = int(rng.integers(1 << 30))
        prompts = [rng.integers(tiny.VOCABULARY, size=(1, tokens)) for tokens, _ in sizes]
        data = {
            "seed": seed,
            "prompts": [prompt.tolist() for prompt in prompts],
            "new_tokens": [new_tokens for _, new_tokens in sizes],
        }
        tokens, _ = tiny.greedy(seed, data["prompts"][-1], sizes[-1][1])
        data["eos"] = tokens[len(tokens) // 2]
        device = VirtualDevice(start=float(rng.uniform(10, 1000)))
        per_token, per_row = rng.uniform(1e-3, 2e-3), rng.uniform(1e-4, 1e-3)
        calls = {
            "begin": lambda: device.enqueue(0.3),
            "forward": lambda tokens, cached, grad: device.enqueue(0.02 + per_token * tokens),
            "head": lambda rows: device.enqueue(1e-3 + per_row * rows),
            "sync": device.sync,
            "clock": device.clock,
        }
        return Challenge(data, calls=calls)

    @staticmethod
    def run(learner, challenge):
        import copy

        import torch

        from autograder import lab

        torch.set_num_threads(1)  # on a model this small threads would mostly wait for each other
        model = copy.deepcopy(lab.load_model("shape:tiny", dtype=torch.float32, seed=challenge["seed"]))
        model.requires_grad_(True)
        model.config.eos_token_id = model.generation_config.eos_token_id = challenge["eos"]

        def before_forward(decoder, args, kwargs):
            ids = kwargs.get("input_ids", args[0] if args else None)  # [B, T]
            ids = kwargs["inputs_embeds"] if ids is None else ids  # [B, T, E]
            lengths = [x.get_seq_length() for x in (*args, *kwargs.values()) if hasattr(x, "get_seq_length")]
            cached = int(lengths[0]) if lengths else 0
            recorded = torch.is_grad_enabled() and any(weight.requires_grad for weight in decoder.parameters())
            challenge["forward"](ids.shape[0] * ids.shape[1], cached, recorded)

        def before_head(head, args):
            challenge["head"](args[0].numel() // args[0].shape[-1])

        model.model.register_forward_pre_hook(before_forward, with_kwargs=True)
        model.lm_head.register_forward_pre_hook(before_head)
        answers = []
        for prompt, new_tokens in zip(challenge["prompts"], challenge["new_tokens"], strict=True):
            challenge["begin"]()
            ids = torch.tensor(prompt, device=lab.device())
            answer = learner.generate_timed(model, ids, new_tokens, sync=challenge["sync"], clock=challenge["clock"])
            answers.append(answer)
        return answers

    def verify(self, challenge, answer):
        requests = _Request.all_in(challenge.log)
        first: dict[str, str] = {}
        for i, (prompt, n) in enumerate(zip(challenge["prompts"], challenge["new_tokens"], strict=True)):
            seen, expected, margins = requests[i], *tiny.greedy(challenge["seed"], prompt, n)
            where = f"{len(prompt[0])} prompt tokens, {n} new: " if i == 0 else f"request {i + 1} on this model: "
            for rung, complaint in (
                (self.TOKENS, _why_tokens(answer[i], prompt[0], expected, margins, challenge["eos"])),
                (self.FORWARDS, _why_forwards(seen.fed, len(prompt[0]), n)),
                (self.HEAD, _why_rows(seen.rows, len(seen.fed))),
                (self.GRAD, _why_grad(seen)),
                (self.TIMES, _why_times(answer[i], seen, n)),
            ):
                if complaint:
                    first.setdefault(rung, where + complaint)
        for rung in challenge.decides or self.rungs:
            yield Rung(rung, rung not in first, first.get(rung, ""))

    workloads = (
        {"prompt_tokens": 96, "new_tokens": 8},
        {"prompt_tokens": 256, "new_tokens": 8},
        {"prompt_tokens": 1024, "new_tokens": 16},
        {"prompt_tokens": 6144, "new_tokens": 16},
    )

    def timed_challenge(self, rng, workload):
        ids = rng.integers(STACK_VOCABULARY, size=(1, workload["prompt_tokens"]))
        return Challenge({"prompt": ids, "new_tokens": workload["new_tokens"]})

    @staticmethod
    def timed_run(learner, challenge):
        import torch

        from autograder import lab

        shape = {"layers": 4, "vocab_size": 4096, "dtype": torch.float32, "seed": 0}
        model = lab.load_model("shape:smollm2-135m", **shape)
        table = model.get_input_embeddings().weight
        if model.lm_head.weight is table:  # random and tied, it would only repeat the last token
            model.lm_head.weight = torch.nn.Parameter(table.roll(1, dims=1), requires_grad=False)
        ids = torch.as_tensor(challenge["prompt"]).to(lab.device())
        tokens, _, _ = learner.generate_timed(model, ids, challenge["new_tokens"], sync=lab.sync, clock=lab.clock)
        return tokens

    @staticmethod
    def baseline(challenge):
        import torch

        from autograder import lab

        shape = {"layers": 4, "vocab_size": 4096, "dtype": torch.float32, "seed": 0}
        model = lab.load_model("shape:smollm2-135m", **shape)
        table = model.get_input_embeddings().weight
        if model.lm_head.weight is table:  # as in timed_run
            model.lm_head.weight = torch.nn.Parameter(table.roll(1, dims=1), requires_grad=False)
        ids = torch.as_tensor(challenge["prompt"]).to(lab.device())
        tokens, margins = [], []
        with torch.inference_mode():
            for _ in range(challenge["new_tokens"]):
                logits = lab.forward(model, ids)[0, -1]  # [V], from the whole sequence every step
                best = logits.topk(2).values
                margins.append(((best[0] - best[1]) / logits.std()).item())
                tokens.append(logits.argmax().item())
                ids = torch.cat([ids, logits.argmax().view(1, 1)], dim=1)
        return tokens, margins

    def agrees(self, challenge, answer, expected):
        return _why_tokens((answer, None, None), challenge["prompt"][0].tolist(), *expected, eos=None)


def _parts(answer: Any) -> tuple | None:
    """The three parts of what generate_timed returned, or None."""
    return tuple(answer) if isinstance(answer, tuple | list) and len(answer) == 3 else None


def _why_tokens(answer, prompt, expected, margins, eos) -> str | None:
    """What is wrong with the tokens; after a near tie (1e-3 of the logits' deviation) any token will do."""
    if not (parts := _parts(answer)):
        return f"return the tuple (tokens, sent, token_times); you returned {describe(answer)}."
    if (tokens := numbers(parts[0])) is None:
        what = describe(parts[0])
        if isinstance(parts[0], list) and parts[0]:
            what += "; .item() makes a number of a tensor with one element"
        return f"tokens must be a list of {len(expected)} ints; it is {what}."
    n = len(expected)
    if tokens[: len(prompt)] == prompt and len(tokens) == len(prompt) + n:
        return "tokens holds the prompt too; only the new ones belong there."
    if len(tokens) != n:
        if tokens and tokens[-1] == eos and len(tokens) < n:
            return f"{len(tokens)} tokens came, {n} were asked for: it stopped at the end-of-sequence token."
        if len(tokens) == n - 1 and tokens == expected[1:]:
            return "the first new token is missing. The prefill has predicted it already: in which row?"
        return f"{len(tokens)} tokens came, {n} were asked for. How many does the prefill itself predict?"
    sure = next((i for i, margin in enumerate(margins) if margin <= 1e-3), n)
    wrong = next((i for i in range(sure) if tokens[i] != expected[i]), None)
    if wrong is None:
        return None
    if n > 2 and tokens[:-1] == expected[1:]:
        return "the first new token is missing. The prefill has predicted it already: in which row?"
    if wrong == 0:
        return (
            f"the first new token is {describe(tokens[0])}, greedy is {expected[0]}. Which row of the "
            "prefill's logits predicts what follows the prompt, and did the cache start empty?"
        )
    return (
        f"token {wrong + 1} is {describe(tokens[wrong])}, greedy is {expected[wrong]}; those before are "
        "right. Does each step get the last token, and the cache of all before it?"
    )


def _why_forwards(fed, prompt_tokens: int, n: int) -> str | None:
    """What is wrong with the forwards (tokens, cached): there should be one prefill and n - 1 steps."""
    if fed == [(prompt_tokens, 0), *((1, prompt_tokens + i) for i in range(n - 1))]:
        return None
    sizes = ", ".join(str(tokens) for tokens, _ in fed[:4]) + (", ..." if len(fed) > 4 else "")
    if not fed:
        return "the model was never called."
    if fed[0][1]:
        return (
            f"the first forward found {fed[0][1]} tokens in its cache: they belong to an earlier request. "
            "A cache lives as long as its request; where is yours made?"
        )
    if len(fed) > 1 and fed[1][0] > prompt_tokens:
        return (
            f"the forwards carried {sizes} tokens: the whole sequence every step. What does the cache hold "
            "already, and what is new?"
        )
    if fed[0][0] < prompt_tokens:
        return f"the forwards carried {sizes} tokens: the prompt's {prompt_tokens} can go in at once."
    if len(fed) == n + 1:
        return f"{n + 1} forwards for {n} tokens. Which forward's prediction is never used?"
    if len(fed) != n:
        return f"{len(fed)} forwards for {n} tokens, expected {n}: each forward predicts one."
    held = ", ".join(str(cached) for _, cached in fed[:4])
    return (
        f"the forwards carried {sizes} tokens on top of {held} cached ones; expected "
        f"{prompt_tokens} on 0, then 1 on {prompt_tokens} and so on."
    )


def _why_rows(rows, forwards: int) -> str | None:
    """What is wrong with the rows that entered the head, one per forward."""
    if len(rows) == forwards and set(rows) == {1}:
        return None
    if not rows:
        return "nothing entered model.lm_head."
    if max(rows) == 1:
        return f"the head was used {len(rows)} times in {forwards} forwards."
    return (
        f"{max(rows)} rows entered the head in one forward. Only the last position predicts the next token; "
        "the others are multiplied with the whole vocabulary for nothing (see logits_to_keep)."
    )


def _why_grad(seen) -> str | None:
    if seen.fed and not seen.grad:
        return None
    if not seen.fed:
        return "the model was never called."
    return "the forwards recorded everything a backward pass would need. Nobody trains: torch.inference_mode() says so."


def _why_times(answer, seen, n: int) -> str | None:
    """What is wrong with sent and the token times, judged by what had happened when the clock was read."""
    if not (parts := _parts(answer)):
        return f"return the tuple (tokens, sent, token_times); you returned {describe(answer)}."
    sent, times = number(parts[1]), numbers(parts[2])
    if sent is None or times is None or len(times) != n:
        return f"expected sent (a number) and {n} token times; you gave {describe(parts[1])} and {describe(parts[2])}."
    if any(moment not in seen.readings for moment in (sent, *times)):
        return "sent and token_times are readings of clock(), unchanged; one of yours is not."
    forwards, _, queued = seen.readings[sent]
    if forwards:
        return "sent was read after the first forward had begun: the request had been waiting all that time."
    if queued:
        return "sent was read while earlier work was still queued: sync() before every clock(), this one too."
    before = 0
    for i, moment in enumerate(times):
        _, heads, queued = seen.readings[moment]
        if heads <= before:
            return f"the time of token {i + 1} was read when only {heads} tokens had been predicted."
        if queued:
            return (
                f"the time of token {i + 1} was read while its forward was still in the queue: a clock does "
                "not wait. What does?"
            )
        before = heads
    return None


class SweepPromptLengths(Exercise):
    """Medians of time to first token and time per output token over fresh random prompts, per length."""

    CALLS = "every length is warmed up, then measured `repeats` times"
    FRESH = "every prompt is new, random and of its length"
    TTFT = "ttft is the median of the measured calls"
    TPOT = "tpot is the median time per token after the first"

    name = "sweep_prompt_lengths"
    rungs: Mapping[str, float] = {CALLS: 1, FRESH: 1, TTFT: 1, TPOT: 2}
    hints = (
        "A server that has seen a prompt before may answer it from memory, and the first call of a new "
        "length pays for things no later call pays for. Which calls of yours may count?",
        "Per call you hold sent and N token times. Which of them belong to ttft, which to tpot, and over "
        "what do you take the median at the very end?",
    )

    def challenges(self, rng):
        short, middle, long = (int(rng.integers(*span)) for span in ((8, 16), (40, 80), (150, 300)))
        some, others = rng.permutation(np.arange(4, 9))[:2].tolist()
        yield self._challenge(rng, [short, middle, long], repeats=5, new_tokens=some)
        yield self._challenge(rng, [long, short], repeats=4, new_tokens=others)

    @staticmethod
    def _challenge(rng, lengths, repeats, new_tokens) -> Challenge:
        data = {
            "lengths": lengths,
            "repeats": repeats,
            "new_tokens": new_tokens,
            "vocab_size": int(rng.integers(3000, 9000)),
            "seeds": {"generate": (seed := int(rng.integers(1 << 30))), "again": seed, "otherwise": seed + 1},
        }
        most = TOO_OFTEN * len(lengths) * (repeats + 1)
        return Challenge(data, calls={name: _ScriptedServer(rng, most).generate for name in data["seeds"]})

    @staticmethod
    def run(learner, challenge):
        import torch

        def sweep(name, seed):
            """One whole sweep, on a server and with a generator of its own."""
            return learner.sweep_prompt_lengths(
                lambda prompt_ids, new_tokens: challenge[name](prompt_ids, new_tokens),
                list(challenge["lengths"]),
                repeats=challenge["repeats"],
                new_tokens=challenge["new_tokens"],
                vocab_size=challenge["vocab_size"],
                rng=torch.Generator().manual_seed(seed),
            )

        first, *_ = [sweep(name, seed) for name, seed in challenge["seeds"].items()]
        return {"result": first}

    def verify(self, challenge, answer):
        calls: dict[int, list[_Call]] = {length: [] for length in challenge["lengths"]}
        sent_by: dict[str, set[bytes]] = {name: set() for name in challenge["seeds"]}
        for name, args, returned in challenge.log:
            if isinstance(returned, Raised):  # and caught by the learner, or we would not be here
                yield from (Rung(rung, False, f"generate refused a call: {returned.message}.") for rung in self.rungs)
                return
            (prompt, new_tokens), (_, sent, times) = args, returned
            ids = _ids(prompt)
            if ids is None:
                yield from self._not_ids(prompt)
                return
            sent_by[name].add(ids.tobytes())
            if name == "generate":
                calls.setdefault(ids.shape[1], []).append(_Call(ids, new_tokens, sent, times))
        first, again, otherwise = sent_by.values()
        repeatable = first == again and not first & otherwise
        for rung, complaint in (
            (self.CALLS, _why_calls(challenge, calls)),
            (self.FRESH, _why_prompts(challenge, calls, repeatable)),
            (self.TTFT, _why_median(challenge, calls, answer["result"], 0)),
            (self.TPOT, _why_median(challenge, calls, answer["result"], 1)),
        ):
            yield Rung(rung, complaint is None, complaint or "")

    def _not_ids(self, prompt):
        for rung in self.rungs:
            yield Rung(rung, False, f"prompt ids are int64 of shape [1, T]; generate got {describe(prompt)}.")


@dataclass(frozen=True)
class _Call:
    """One call of the scripted server. Times in seconds."""

    prompt: np.ndarray  # [1, T]
    new_tokens: Any
    sent: float
    times: list[float]

    @property
    def ttft(self) -> float:
        return self.times[0] - self.sent

    @property
    def tpot(self) -> float:
        return (self.times[-1] - self.times[0]) / max(1, len(self.times) - 1)


class _ScriptedServer:
    """Made-up latencies: the first call of a length is cold, a prompt seen before is answered from memory."""

    def __init__(self, rng, most_calls: int = 1000) -> None:
        self.calls_left = self.most_calls = most_calls
        self.rng, self.now, self.seen, self.lengths = rng, float(rng.uniform(10, 1000)), set(), set()

    def generate(self, prompt_ids, new_tokens) -> tuple[list[int], float, list[float]]:
        n, ids = max(1, int(number(new_tokens) or 1)), _ids(prompt_ids)
        self.calls_left -= 1
        if self.calls_left < 0:
            raise ValueError(f"called more than {self.most_calls} times, far more often than a sweep needs")
        if n > MOST_TOKENS:
            raise ValueError(f"this server answers with at most {MOST_TOKENS} tokens")
        length, prompt = (0, b"") if ids is None else (ids.shape[1], ids.tobytes())
        cold = 1 if length in self.lengths else 6
        remembered = 0.05 if prompt in self.seen else 1
        self.lengths.add(length)
        self.seen.add(prompt)
        noise = self.rng.lognormal(0, 0.3, n)
        waits = cold * noise * np.where(np.arange(n) == 0, remembered * (0.05 + 2e-3 * length), 0.04)
        sent, times = self.now, (self.now + np.cumsum(waits)).tolist()
        self.now = times[-1] + 0.01
        return self.rng.integers(1000, size=n).tolist(), sent, times


def _ids(prompt: Any) -> np.ndarray | None:
    """Prompt ids as an array if they are integers of shape [1, T], else None."""
    shape = getattr(prompt, "shape", ())
    if len(shape) != 2 or shape[0] != 1 or "int" not in str(prompt.dtype):
        return None
    return np.asarray(prompt)


def _why_calls(challenge, calls) -> str | None:
    """What is wrong with how often each length was generated."""
    repeats, wanted = challenge["repeats"], challenge["new_tokens"]
    for length in challenge["lengths"]:
        count = len(calls[length])
        if count == 0:
            return f"generate never got prompt ids of shape [1, {length}]."
        if count == repeats:
            return (
                f"length {length} was generated {count} times with repeats={repeats}: its first call, slow "
                "for reasons of its own, is among the measured ones. Each length needs its own warm-up."
            )
        if count < repeats:
            return f"length {length} was generated {count} times; repeats={repeats} and a warm-up make more."
        asked = next((call.new_tokens for call in calls[length][-repeats:] if call.new_tokens != wanted), None)
        if asked is not None:
            return f"generate was asked for {describe(asked)} new tokens where new_tokens={wanted}."
    return None


def _why_prompts(challenge, calls, repeatable) -> str | None:
    """What is wrong with the prompts that were sent."""
    vocabulary, prompts = challenge["vocab_size"], []
    for length in challenge["lengths"]:
        ids = [call.prompt for call in calls[length]]
        if len({prompt.tobytes() for prompt in ids}) < len(ids):
            return (
                f"length {length}: the same prompt was sent more than once. A server may remember it, and "
                "then you measure its memory: every call needs a new prompt, the warm-up's included."
            )
        if _alike(ids):
            return f"length {length}: its prompts share most of their ids. A server remembers those as well."
        prompts += ids
    if not prompts:
        return "generate was never called."
    lowest, highest = min(p.min() for p in prompts), max(p.max() for p in prompts)
    if lowest < 0 or highest >= vocabulary:
        return f"ids from {lowest} to {highest} came, for a vocabulary of {vocabulary}."
    if _alike(prompts) or any(_is_counting(p) for p in prompts):
        return "a random prompt is drawn id by id; yours continue or count up one another."
    if highest < vocabulary // 2 or any(np.unique(p).size < p.size / 2 for p in prompts):
        return f"random prompts draw from all {vocabulary} ids; yours repeat a few of them."
    if not repeatable:
        return (
            "the prompts do not come from rng, so nobody can repeat your sweep: a generator in the same state makes "
            "the same prompts, one in another state others."
        )
    return None


def _alike(prompts: list[np.ndarray]) -> bool:
    """Whether most ids of one prompt have stood at the same place of others."""
    seen: set[tuple[int, int]] = set()
    for prompt in sorted(prompts, key=np.size, reverse=True):  # a short one may be the beginning of a longer one
        places = set(enumerate(prompt[0].tolist()))
        if len(places & seen) > prompt.size / 2:
            return True
        seen |= places
    return False


def _is_counting(prompt: np.ndarray) -> bool:
    """Whether the ids rise or fall by the same step nearly everywhere."""
    steps = np.diff(prompt[0])
    return steps.size > 3 and np.unique(steps, return_counts=True)[1].max() > 0.8 * steps.size


def _why_median(challenge, calls, result, which: int) -> str | None:
    """What is wrong with ttft (which = 0) or tpot (1) of the result."""
    name, repeats = ("ttft", "tpot")[which], challenge["repeats"]
    if not isinstance(result, dict):
        return f"return a dict from length to (ttft, tpot); you returned {describe(result)}."
    for length in challenge["lengths"]:
        pair = result.get(length)
        if (both := numbers(pair)) is None or len(both) != 2:
            return f"for length {length} the dict has {describe(pair)}, expected the pair (ttft, tpot)."
        if not calls[length]:
            return f"nothing was measured for length {length}."
        measured = calls[length][-repeats:]
        expected = float(np.median([getattr(call, name) for call in measured]))
        pair = both
        if close(pair[which], expected):
            continue
        why = f"{name}: for length {length} you gave {describe(pair[which])}, expected {expected:.4g} s."
        if close(pair[1 - which], expected):
            return f"{why} The two are swapped: the pair is (ttft, tpot)."
        for mistake, value in _mistaken_medians(name, measured, calls[length]):
            if close(pair[which], value):
                return f"{why} {mistake}"
        return why
    return None


def _mistaken_medians(name: str, measured, everything):
    """(what it means, the value it gives) of the usual mistakes with a median of ttft or tpot."""
    counts = [len(call.times) for call in measured]
    whole = [call.times[-1] - call.sent for call in measured]
    yield (
        "That counts the length's first call, which is its warm-up.",
        float(np.median([getattr(call, name) for call in everything])),
    )
    yield "That is the mean: one slow call pulls it.", float(np.mean([getattr(c, name) for c in measured]))
    yield "That is the fastest call, not the median.", min(getattr(call, name) for call in measured)
    if name == "ttft":
        yield "That is the whole answer's time: when did its first token come?", float(np.median(whole))
        return
    gaps = [gap for call in measured for gap in np.diff(call.times)]
    yield (
        "That has the first token's wait in it: ttft has counted it already.",
        float(np.median([seconds / n for seconds, n in zip(whole, counts, strict=True)])),
    )
    yield (
        "That has the first token's wait in it: ttft has counted it already.",
        float(np.median([seconds / max(1, n - 1) for seconds, n in zip(whole, counts, strict=True)])),
    )
    yield (
        "N tokens have N - 1 gaps after the first.",
        float(np.median([c.tpot * (n - 1) / n for c, n in zip(measured, counts, strict=True)])),
    )
    yield "That is the median of all gaps; tpot is each request's mean gap.", float(np.median(gaps))


MORE, SAME, HALF = "about 4x or somewhat more", "almost unchanged", "about half"


class WhatChanges(Exercise):
    """Effect of six changes on (ttft, tpot) of llama-3.1-8b in bfloat16 on one H100, 4096 prompt tokens.

    Prefill: 4096 x 2 x 7.0e9 operations and 4.4e12 of attention, 62 ms at 989e12 per second, against 15.0e9
    bytes of weights, 4.5 ms at 3350e9: arithmetic decides. Decode: those bytes and 0.54e9 of cache per token:
    bytes decide. Four times the prompt is 4.9 times the operations (attention is square), 1.10 times the bytes.
    """

    name = "WHAT_CHANGES"
    quiz_points = 2
    allowed = (MORE, "about 2x", SAME, HALF, "a small fraction")
    key: Mapping[str, tuple[str, str]] | None = {
        "prompt x4": (MORE, SAME),
        "output x4": (SAME, SAME),
        "half the bytes per weight": (SAME, HALF),
        "twice the arithmetic": (HALF, SAME),
        "twice the bandwidth": (SAME, HALF),
        "prefix already cached": ("a small fraction", SAME),
    }
    hints = (
        "How many seconds do 15e9 bytes of weights take at 3350e9 per second, and 4096 tokens' operations at 989e12? "
        "Which is longer, and which for one token?",
        "Take one change and one phase. Does the change touch the number this phase waits for? Does it change "
        "how many tokens the phase works on?",
    )


EXPLAIN_THE_SPLIT = MarkScheme(
    "explain_the_split",
    points=(
        SchemePoint(
            "Prefill uses each weight it reads for all tokens of the prompt, so beyond some length (the bend) "
            "arithmetic bounds it.",
            earns="Prefill reads each weight once and uses it for all 2048 prompt tokens, so beyond the bend (a few "
            "dozen tokens as measured here, a few hundred on an H100 in bfloat16) it is the multiplications that "
            "take the time.",
            does_not="Prefill is compute-bound, so it gets slower with longer prompts.",
        ),
        SchemePoint(
            "Decode reads all weights again for one token's worth of arithmetic, so reading bounds it.",
            earns="Every further token passes through alone, and for it the whole model is read again; the "
            "arithmetic on one token is over long before the reading is.",
            does_not="Decode is memory-bound.",
        ),
        SchemePoint(
            "The bytes of the weights do not depend on the prompt.",
            earns="The 538 MB read per token are the same after 16 tokens of prompt as after 2048.",
            does_not="The time per token is almost constant, as the measurement shows.",
        ),
        SchemePoint(
            "The KV cache adds 2 x layers x KV heads x head size x bytes per value for each token of context, "
            "and a context length (or a number of bytes beside the weights') is given at which it matters.",
            earns="Each token of context adds 2 x 30 x 3 x 64 x 4 = 46 kB to what a step reads: 94 MB at 2048 "
            "tokens, a sixth of the weights; at 12,000 tokens it would be as much as they are.",
            does_not="The KV cache grows with the context, which makes decode a little slower.",
        ),
        SchemePoint(
            "A decision about serving that follows from the split, with one number of the learner's own.",
            earns="My first token takes 3.7 s after 2048 prompt tokens and a further one 48 ms, so for a chat "
            "with 20-token answers I would shorten the prompt before anything else.",
            does_not="One should therefore optimise prefill for long prompts and decode for long answers.",
        ),
    ),
    samples=(
        Sample(
            "In prefill all prompt tokens share one reading of the weights, so beyond a few dozen tokens the "
            "multiplications set the time: my first token took 55 ms after 16 tokens, 3.7 s after 2048. Then every "
            "token goes through alone, and all 538 MB of weights are read again for its little arithmetic: bytes "
            "bound it, not multiplications. Those are the same after any prompt, so a further token took 39 ms and 48 "
            "ms. The small rise is the KV cache, read and copied: 2 x 30 x 3 x 64 x 4 bytes, 46 kB per token, 94 MB "
            "at 2048, a sixth of 538 MB; at 12,000 tokens it would be as much. In our support chat (2000 tokens in, "
            "30 out) prefill is 3.7 of 5.1 s, so I would cut the prompt.",
            awarded=(True, True, True, True, True),
            why="Each cause is named with what follows from it, the cache has its formula and its scale, and the "
            "decision rests on the writer's own 3.7 s of 5.1 s.",
        ),
        Sample(
            "Prefill is compute-bound and decode is memory-bound. In prefill the prompt is processed in "
            "parallel, so the time to first token depends on its length: in my figure it grew from 55 ms to "
            "3.7 s. In decode the model generates one token at a time, and each step has to load all the "
            "weights from memory to produce just this one token, however long the prompt was, as they are the "
            "same 538 MB. The KV cache also grows, so decode becomes slightly slower with long prompts. This is "
            "why the two phases should be optimised differently.",
            awarded=(False, True, True, False, False),
            why="1: 'in parallel' is not yet a reason for slow; that the reads are shared and the arithmetic is "
            "not is missing. 4: neither the bytes per token nor when they matter. 5: no decision, only the "
            "announcement of one.",
        ),
    ),
)

CHAPTER = Chapter(
    "01_prefill_and_decode",
    "Prefill and decode",
    exercises=(LatencyMetrics(), GenerateTimed(), SweepPromptLengths(), WhatChanges()),
    written=(EXPLAIN_THE_SPLIT,),
)
