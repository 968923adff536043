"""The speed rule's promise, for real: a second process loads the cores, and everybody gets what they should."""

from __future__ import annotations

import json
import subprocess
import sys

import psutil
import pytest

from autograder.course import prove_speed
from autograder.course.prove_speed import ANSWERS, busy_cores, kept, prove, write
from autograder.lab import hardware

pytestmark = [pytest.mark.speed_rule, pytest.mark.alone]


def runs(kind: str, *shares: float, reference_ratio: float | None = 2.8) -> list[dict]:
    return [{"kind": kind, "share": share, "reference_ratio": reference_ratio} for share in shares]


KEPT = runs("reference", *[1.0] * 10) + runs("baseline", *[0.0] * 10) + runs("half", *[0.5] * 9, 1.0)


def test_on_a_loaded_machine_the_reference_gets_all_the_slow_way_nothing_and_45_percent_half():
    found = prove(10)
    told = json.dumps(found["shares"])
    assert len(found["runs"]) == 30, told
    assert found["shares"]["reference"] == {"1": 10}, told
    assert found["shares"]["baseline"] == {"0": 10}, told
    assert found["shares"]["half"].get("0.5", 0) >= 8, told
    assert kept(found["runs"], prove_speed.PROMISED | {"half": (0.5, 0.8)}), "beside a reference of at least 2.5x"


def test_the_promise_is_broken_by_one_run_of_the_reference_or_the_slow_way_and_by_more_than_a_tenth_of_the_half():
    assert kept(KEPT)
    assert not kept(KEPT + runs("reference", 0.5))
    assert not kept(KEPT + runs("baseline", 0.5))
    assert not kept(KEPT + runs("half", 0.0))


def test_a_reference_below_two_and_a_half_or_none_that_could_be_measured_proves_nothing():
    assert not kept([run | {"reference_ratio": 2.4} for run in KEPT])
    assert not kept([run | {"reference_ratio": None} for run in KEPT])


@pytest.mark.parametrize(("good", "status"), [(True, 0), (False, 1)])
def test_the_command_keeps_what_it_found_beside_the_machines_card_and_fails_when_the_promise_is_broken(
    good, status, monkeypatch, tmp_path
):
    found = {"ok": good, "shares": {"half": {"0.5": 50}}, "machine": {"name": "A CPU (R) @ 2 GHz"}, "runs": []}
    monkeypatch.setattr(prove_speed, "prove", lambda runs, progress: found)
    monkeypatch.setattr(prove_speed, "repository", lambda: tmp_path)
    assert prove_speed.main() == status
    path = tmp_path / "notebooks" / "reference" / "speed_rule_a_cpu_r_2_ghz.json"
    assert json.loads(path.read_text()) == found and write(found, tmp_path) == path


def test_the_load_keeps_every_core_busy_and_is_gone_afterwards():
    with busy_cores() as load:
        process = psutil.Process(load.pid)
        while process.num_threads() <= hardware.usable_cores():
            assert load.poll() is None
        before = process.cpu_times().user
        while process.cpu_times().user < before + 1:
            assert load.poll() is None
    assert load.poll() is not None and not psutil.pid_exists(load.pid)


STARTER = """
from autograder.course.prove_speed import busy_cores

with busy_cores() as load:
    print(load.pid, flush=True)
    input()
"""


def test_the_load_ends_by_itself_when_whoever_started_it_is_killed():
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    load = psutil.Process(int(starter.stdout.readline()))
    starter.kill()
    starter.communicate()
    load.wait(timeout=60)


def test_the_three_answers_compute_the_same_power_with_64_192_and_118_products():
    class Matrix:
        def __init__(self) -> None:
            self.power, self.products = 1, 0

        def __matmul__(self, other: Matrix) -> Matrix:
            self.products += 1
            product = Matrix()
            product.power = self.power + other.power
            return product

    counted = {}
    for kind, source in ANSWERS.items():
        namespace: dict = {}
        exec(source, namespace)
        matrix = Matrix()
        assert namespace["power"](matrix).power == 65
        counted[kind] = matrix.products
    assert counted == {"reference": 64, "baseline": 192, "half": 118}
