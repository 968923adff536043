"""The speed rule: marks for a measured speedup that survive a noisy machine.

Three arms do the same work: A the course's baseline, R its reference, B the learner. They are timed in triples, in
random order, so that whatever slows the machine slows all three. With r = ln(A/B) and q = ln(A/R) per triple, the
learner's share of the reference's speedup is r / HL(q), where HL is the Hodges-Lehmann estimate of location.
Where only slowness costs marks the reference takes the baseline's place, and r > -ln 1.3 is asked of the learner.
Nothing here reads a clock: triples come from the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

WINS = {11: 10, 21: 17, 41: 29}  # triples looked at -> wins an exact sign test asks for
FULL, NONE = 0.6, 0.3
ALLOWANCE = 0.9
SLOWER_ALLOWED = 1.3
IMPLAUSIBLE_SCORE = 2.0


@dataclass(frozen=True)
class Triple:
    """Seconds of one block of each arm; `reference` is None where the course's solution is absent, or the baseline."""

    baseline: float
    learner: float
    reference: float | None


@dataclass(frozen=True)
class Decision:
    """The rule's word: the share of the speed points, after how many triples, and the estimates behind it.

    ratio is the learner's speedup over the baseline, reference_ratio the reference's (None where absent); bars are
    the speedups over the baseline at which half and full marks start.
    """

    share: float
    triples: tuple[Triple, ...]
    ratio: float
    reference_ratio: float | None
    bars: tuple[float, float]
    noisy: bool = False
    review: str | None = None

    @property
    def score(self) -> float | None:
        """The learner's share of the reference's log-speedup."""
        if self.reference_ratio is None or self.reference_ratio <= 1:
            return None
        return math.log(self.ratio) / math.log(self.reference_ratio)


def hodges_lehmann(samples) -> float:
    """Median of all pairwise means, each sample with itself included: a robust estimate of location.

    Source: Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963).
    """
    x = np.asarray(samples, dtype=float)
    i, j = np.triu_indices(len(x))
    return float(np.median((x[i] + x[j]) / 2))


def decide(next_triple: Callable[[int], Triple], *, minimum_ratio: float, fastest: float = 1.0) -> Decision:
    """Draw triples until the sign test decides: full, half or no share of the speed points.

    next_triple(i) gives the i-th triple. With a reference the bar is 0.6 and 0.3 of its log-speedup; without one it
    is `minimum_ratio` over the baseline for full marks and its square root for half. fastest: the log-speedup of the
    course's fastest way over the reference's, where that is another one.
    """
    triples: list[Triple] = []
    for looks, wins in WINS.items():
        while len(triples) < looks:
            triples.append(next_triple(len(triples)))
        r = np.array([math.log(t.baseline / t.learner) for t in triples])
        upper, lower, q = _bars(triples, minimum_ratio)
        above_full, above_none = int((r > upper).sum()), int((r > lower).sum())
        share = None
        if above_full >= wins:
            share = 1.0
        elif looks - above_none >= wins:
            share = 0.0
        elif above_none >= wins and looks - above_full >= wins:
            share = 0.5
        if share is not None:
            return _decision(share, triples, r, (lower, upper), q, fastest)
    estimate = hodges_lehmann(r)
    share = 1.0 if estimate > ALLOWANCE * upper else 0.5 if estimate > ALLOWANCE * lower else 0.0
    return _decision(share, triples, r, (lower, upper), q, fastest, noisy=True)


def _bars(triples: list[Triple], minimum_ratio: float) -> tuple[float, float, float | None]:
    """(log-speedup for full marks, for half marks, the reference's log-speedup or None)."""
    if triples[0].reference is None:
        return math.log(minimum_ratio), math.log(minimum_ratio) / 2, None
    q = hodges_lehmann([math.log(t.baseline / t.reference) for t in triples])
    return FULL * q, NONE * q, q


def _decision(
    share: float,
    triples: list[Triple],
    r: np.ndarray,
    bars: tuple[float, float],
    q: float | None,
    fastest: float = 1.0,
    *,
    noisy: bool = False,
) -> Decision:
    estimate = hodges_lehmann(r)
    review = None
    # The same sign test as for marks: an honest solution on a noisy machine must not be called a cheat.
    if q is not None and q > 0 and (r > IMPLAUSIBLE_SCORE * fastest * q).sum() >= WINS[len(triples)]:
        review = f"{math.exp(estimate):.1f}x is more than the square of the reference's {math.exp(fastest * q):.1f}x"
    return Decision(
        0.0 if review else share,
        tuple(triples),
        math.exp(estimate),
        None if q is None else math.exp(q),
        (math.exp(bars[0]), math.exp(bars[1])),
        noisy,
        review,
    )


def not_slower(next_triple: Callable[[int], Triple]) -> Decision:
    """All of the share, or none to a learner who is slower than the reference by more than 30%.

    The `baseline` of these triples is the reference. The same looks and sign test; at the last look the estimate
    decides.
    """
    triples: list[Triple] = []
    bar = -math.log(SLOWER_ALLOWED)
    for looks, wins in WINS.items():
        while len(triples) < looks:
            triples.append(next_triple(len(triples)))
        r = np.array([math.log(t.baseline / t.learner) for t in triples])
        above = int((r > bar).sum())
        if above >= wins or looks - above >= wins:
            return _decision(float(above >= wins), triples, r, (bar, bar), None)
    return _decision(float(hodges_lehmann(r) > bar), triples, r, (bar, bar), None, noisy=True)
