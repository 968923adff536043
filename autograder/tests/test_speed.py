"""The speed rule on simulated machines: honest work keeps its marks, no work gains none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autograder.judge.speed import Triple, decide, hodges_lehmann, not_slower

pytestmark = pytest.mark.speed_rule
RUNS = 3000


def machine(rng, *, reference: float | None, learner: float, noise: float):
    """Triples of a machine whose log-ratios spread by `noise`, with 5% heavy-tailed stalls; speeds are ratios to A."""

    def seconds(speed: float) -> float:
        stall = 1 + abs(rng.standard_cauchy()) if rng.random() < 0.05 else 1.0
        return stall * math.exp(rng.normal(0, noise / math.sqrt(2))) / speed

    return lambda i: Triple(seconds(1.0), seconds(learner), None if reference is None else seconds(reference))


def shares(reference: float, learner: float, noise: float) -> dict[float, float]:
    """Share of the speed points -> fraction of many runs that gave it."""
    rng = np.random.default_rng(7)
    given = [
        decide(machine(rng, reference=reference, learner=learner, noise=noise), minimum_ratio=1.6).share
        for _ in range(RUNS)
    ]
    return {share: given.count(share) / RUNS for share in (0.0, 0.5, 1.0)}


@pytest.mark.parametrize(("noise", "lost", "gained"), [(0.2, 0.001, 0.002), (0.3, 0.005, 0.01)])
def test_at_the_smallest_ratio_a_reference_equal_learner_keeps_marks_and_a_no_op_gains_none(noise, lost, gained):
    assert 1 - shares(1.6, 1.6, noise)[1.0] < lost
    assert 1 - shares(1.6, 1.0, noise)[0.0] < gained


def test_a_reference_that_is_hardly_faster_would_give_marks_for_nothing():
    assert 1 - shares(1.3, 1.0, 0.3)[0.0] > 0.02, "which is why 1.6x is asked of the reference"


@pytest.mark.parametrize("noise", [0.1, 0.2, 0.3])
def test_beside_a_reference_of_two_and_a_half_everybody_gets_their_own_share(noise):
    assert shares(2.5, 2.5, noise)[1.0] == 1.0
    assert shares(2.5, 1.0, noise)[0.0] == 1.0
    assert shares(2.5, 2.5**0.45, noise)[0.5] > 0.9


def test_a_quiet_machine_decides_after_eleven_triples():
    rng = np.random.default_rng(1)
    decision = decide(machine(rng, reference=3.0, learner=3.0, noise=0.02), minimum_ratio=2)
    assert (decision.share, len(decision.triples), decision.noisy) == (1.0, 11, False)
    assert decision.score == pytest.approx(1, abs=0.1)


def test_without_a_reference_the_bar_is_the_minimum_ratio_and_its_root():
    rng = np.random.default_rng(1)
    for learner, share in ((2.2, 1.0), (1.6, 0.5), (1.1, 0.0)):
        decision = decide(machine(rng, reference=None, learner=learner, noise=0.02), minimum_ratio=2)
        assert decision.share == share
        assert decision.bars == pytest.approx((math.sqrt(2), 2))


def test_an_impossible_speed_is_for_a_person_to_look_at_and_earns_nothing_yet():
    rng = np.random.default_rng(1)
    decision = decide(machine(rng, reference=2.0, learner=9.0, noise=0.05), minimum_ratio=2)
    assert decision.share == 0.0 and "more than the square" in decision.review


def test_what_the_courses_fastest_way_reaches_is_possible():
    rng = np.random.default_rng(1)
    fastest = math.log(4) / math.log(2)
    for learner, share in ((9.0, 1.0), (20.0, 0.0)):
        triples = machine(rng, reference=2.0, learner=learner, noise=0.05)
        decision = decide(triples, minimum_ratio=2, fastest=fastest)
        assert decision.share == share and (decision.review is None) == (share > 0)
    assert "more than the square of the reference's" in decision.review


def test_a_machine_too_noisy_for_the_sign_test_is_decided_by_the_estimate_and_said_so():
    rng = np.random.default_rng(3)
    bar = 2.0**0.6
    decision = decide(machine(rng, reference=2.0, learner=bar, noise=0.3), minimum_ratio=2)
    assert decision.noisy and len(decision.triples) == 41


def test_hodges_lehmann_is_not_moved_by_one_stall():
    assert hodges_lehmann([1.0] * 10 + [1000.0]) == pytest.approx(1.0)


def against_the_reference(rng, *, learner: float, noise: float):
    """Pairs of the same machine, the reference in the baseline's place; `learner` is its speed."""
    triple = machine(rng, reference=None, learner=learner, noise=noise)
    return lambda i: triple(i)


def test_no_slower_than_the_reference_by_thirty_percent():
    rng = np.random.default_rng(5)
    for learner, share in ((1.2, 1.0), (1.0, 1.0), (1 / 1.1, 1.0), (1 / 1.6, 0.0), (1 / 3, 0.0)):
        decision = not_slower(against_the_reference(rng, learner=learner, noise=0.05))
        assert (decision.share, decision.noisy) == (share, False)
        assert decision.bars == pytest.approx((1 / 1.3, 1 / 1.3)) and decision.reference_ratio is None


def test_being_faster_than_the_course_is_no_reason_for_doubt_where_only_slowness_costs():
    rng = np.random.default_rng(6)
    decision = not_slower(against_the_reference(rng, learner=4.0, noise=0.05))
    assert decision.share == 1.0 and decision.review is None


@pytest.mark.parametrize(("noise", "lost", "gained"), [(0.1, 0.001, 0.001), (0.2, 0.01, 0.01)])
def test_where_only_slowness_costs_an_equal_keeps_its_marks_and_one_of_half_the_speed_loses_them(noise, lost, gained):
    rng = np.random.default_rng(8)
    equal, half = (
        [not_slower(against_the_reference(rng, learner=learner, noise=noise)).share for _ in range(RUNS)]
        for learner in (1.0, 0.5)
    )
    assert 1 - sum(equal) / RUNS < lost
    assert sum(half) / RUNS < gained
