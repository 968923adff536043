"""What an exercise is: fresh inputs from the judge, a run in the learner's process, a verdict by the judge.

Nothing of ours is imported here, and nothing heavy: chapters, the judge and the notebooks' index all read this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

LIBRARIES = ("torch", "transformers")  # what a bench imports before it forks workers
MAX_NUMBERS = 1_000_000  # nobody is asked for as many


@dataclass
class Challenge:
    """One fresh input.

    data:      plain values and tensors, sent to the learner's process.
    calls:     functions that stay with the judge; `run` sees them as callables under the same names.
    decides:   the rungs this challenge can fail (all of them when empty): they fail when the answer never comes.
    may_raise: hand `verify` a `Raised` instead of failing the challenge when the learner's code raises.
    after:     an earlier challenge: this one, and all that follow, go to a new process with another salt of `hash`.
    log:       filled by the judge: (name, args, result) of every call, in order.
    answer:    filled by the judge: what came back, for a challenge that comes after this one.
    """

    data: dict[str, Any]
    calls: dict[str, Callable] = field(default_factory=dict)
    decides: tuple[str, ...] = ()
    may_raise: bool = False
    after: Challenge | None = None
    log: list[tuple[str, tuple, Any]] = field(default_factory=list)
    answer: Any = None

    def __getitem__(self, key: str) -> Any:
        return self.data[key]


@dataclass(frozen=True)
class Rung:
    """One thing that was checked. `message` names the likely mistake and is read only when `ok` is False."""

    name: str
    ok: bool
    message: str = ""


@dataclass(frozen=True)
class Raised:
    """An exception of the learner's code. `frames` are its own lines only, outermost first."""

    kind: str
    message: str
    frames: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


@dataclass(frozen=True)
class Foreign:
    """A value of a type that is not plain data; only the type's name crossed the wire."""

    type_name: str


@dataclass(frozen=True)
class SchemePoint:
    """One yes/no point of a written answer, with a sentence that earns it and one that does not."""

    point: str
    earns: str
    does_not: str


@dataclass(frozen=True)
class Sample:
    """A sample answer already marked: `awarded` has one truth value per point of the scheme."""

    text: str
    awarded: tuple[bool, ...]
    why: str


@dataclass(frozen=True)
class MarkScheme:
    """How a written answer is marked: five points, no halves."""

    name: str
    points: tuple[SchemePoint, ...]
    samples: tuple[Sample, ...]


class Exercise:
    """Base of every exercise. An exercise fills in three methods that stand next to each other.

    challenges(rng)            judge: yields `Challenge`s (or plain dicts of data) with values nobody has seen.
    run(learner, challenge)    learner's process, static, self-contained: imports inside itself, returns plain data.
    verify(challenge, answer)  judge: yields a `Rung` per thing checked.

    A rung that several challenges decide passes only when it passes in all of them.

    A measured exercise also has
    timed_challenge(rng, workload)   judge: one input of that size, with new values.
    timed_run(learner, challenge)    like `run`, for the timed calls (default: `run` itself).
    baseline(challenge)              the course's slow way, static, in the course's own process; same answer.
    accepted(challenge)              likewise another way that is as good as the course's solution, if there is one.
    agrees(challenge, answer, expected)   judge: None, or what is wrong with a timed answer.
    One that is `not_slower` has no baseline: the course's own solution stands in its place.
    """

    name: str = ""
    rungs: Mapping[str, float] = {}
    hints: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()  # every name `run` touches; the exercise's own name when empty
    seconds: float = 20.0  # budget of the whole check without timing, wall clock
    memory_bytes: int = 4 << 30

    key: Mapping[Any, Any] | None = None  # a quiz: the right literal, read from the notebook and never executed
    allowed: tuple = ()
    quiz_points: float = 0  # given in halves, counted from what one and the same value everywhere would get right

    workloads: tuple[dict, ...] = ()  # a measured exercise: sizes, smallest first
    minimum_ratio: float = 1.0
    speed_points: float = 0
    speed_rung: str = ""
    counted: tuple[str, ...] = ()  # rungs that say how much was computed: the clock must agree (all rungs when empty)
    held_bytes: int | None = None  # memory the timed process may keep beyond the course's solution; None: any
    not_slower: bool = False  # the speed points are for not being slower than the course's solution by 30%
    timed_seconds: float = 60.0

    @property
    def points(self) -> float:
        return sum(self.rungs.values()) + self.speed_points + self.quiz_points

    @property
    def measured(self) -> bool:
        return self.speed_points > 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.needs or (self.name,)

    def challenges(self, rng) -> Iterable[Challenge | dict]:
        raise NotImplementedError

    @staticmethod
    def run(learner, challenge):
        raise NotImplementedError

    def verify(self, challenge: Challenge, answer: Any) -> Iterable[Rung]:
        raise NotImplementedError

    def timed_challenge(self, rng, workload: dict) -> Challenge:
        raise NotImplementedError

    timed_run: Any = None
    baseline: Any = None
    accepted: Any = None

    def agrees(self, challenge: Challenge, answer: Any, expected: Any) -> str | None:
        raise NotImplementedError

    def bytes_moved(self, workload: dict) -> int:
        """Bytes one timed call must at least read; 0 when the floor is not worth a check."""
        return 0


@dataclass(frozen=True)
class Chapter:
    """One chapter: its slug (`01_prefill_and_decode`), title, exercises in order, and written questions.

    libraries: what answers find imported, of LIBRARIES. They may import the other as well, which takes seconds.
    """

    slug: str
    title: str
    exercises: tuple[Exercise, ...]
    written: tuple[MarkScheme, ...]
    libraries: tuple[str, ...] = LIBRARIES

    @property
    def max_points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)


def number(value: Any) -> float | None:
    """The value as a float when a reasonable reader would call it one number, else None.

    Python and numpy numbers and one-element 0-d tensors are numbers; bool, None and text are not.
    """
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        plain = value.item()
        return number(plain) if isinstance(plain, int | float | bool) else None
    return None


def numbers(value: Any) -> list[float] | None:
    """A list, tuple or one-dimensional array of numbers as floats; None for anything else, or for far too many."""
    if not isinstance(value, list | tuple) and len(getattr(value, "shape", ())) != 1:
        return None
    if len(value) > MAX_NUMBERS:
        return None
    values = [number(item) for item in (value if isinstance(value, list | tuple) else value.tolist())]
    return None if None in values else values


def close(value: Any, expected: float, *, relative: float = 1e-6, absolute: float = 1e-9) -> bool:
    """Whether value is one finite number equal to expected within the larger of both tolerances."""
    got = number(value)
    return got is not None and math.isclose(got, expected, rel_tol=relative, abs_tol=absolute)


def describe(value: Any) -> str:
    """A value in a few words, for a message: numbers with their value, anything else by what it is."""
    if isinstance(value, Foreign):
        return f"a {value.type_name}"
    if isinstance(value, Raised):
        return f"an exception ({value})"
    if value is None or isinstance(value, bool):
        return str(value)
    if (as_number := number(value)) is not None:
        return f"{as_number:.4g}"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    shape = getattr(value, "shape", None)
    if shape is not None:
        kind = str(getattr(value, "dtype", "")).replace("torch.", "")
        return f"a {kind} tensor of shape {list(shape)}"
    if isinstance(value, list | tuple):
        if len(value) <= 4 and all(number(item) is not None for item in value):
            return "[" + ", ".join(describe(item) for item in value) + "]"
        odd = [item for item in value if number(item) is None and not isinstance(item, list | tuple)]
        return f"a {type(value).__name__} of {len(value)}" + (f" with {describe(odd[0])} in it" if odd else "")
    if isinstance(value, dict):
        keys = ", ".join(describe(key) for key in list(value)[:5])
        return f"a dict with {keys or 'nothing in it'}"
    return f"a {type(value).__name__}"
