"""`make prove-speed`: what the speed rule promises, put to the proof on this machine while its cores are busy.

Three solutions of one exercise are judged again and again, in turn: the course's own, the slow way, and one that
reaches 45% of the course's log-speedup. The rule promises all, none, and (nine times in ten) half of the speed points.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

from rich.console import Console

from autograder import lab
from autograder.course.reference import repository
from autograder.exercise import Challenge, Exercise, Rung
from autograder.judge import Cell, Judge, Verdict

RUNS = 50
LEAST_REFERENCE = 2.5  # speedup of the course's solution
PROMISED = {"reference": (1.0, 1.0), "baseline": (0.0, 1.0), "half": (0.5, 0.9)}  # share, in what part of the runs
LOAD_SECONDS = 7200  # after which the load ends by itself, whatever became of this process
LOAD = """
import os, sys, threading, time
import numpy as np

threads, parent, end = int(sys.argv[1]), int(sys.argv[2]), time.monotonic() + float(sys.argv[3])

def work():
    matrix = np.ones((512, 512), "float32")
    while os.getppid() == parent and time.monotonic() < end:
        matrix @ matrix

for _ in range(threads):
    threading.Thread(target=work).start()
"""

out = Console(highlight=False, soft_wrap=True)


class Power(Exercise):
    """The 65th power of a matrix: 64 products, each of which the slow way computes three times.

    On one thread: of two, a busy system may keep both on one core for as long as a process lives, which makes one side
    slower than another in every comparison.
    """

    RUNG = "the power is right"
    name = "power"
    rungs = {RUNG: 1}  # noqa: RUF012
    speed_points = 2
    speed_rung = "faster than every product three times"
    workloads = ({"size": 192}, {"size": 256}, {"size": 384})

    def challenges(self, rng):
        yield self.timed_challenge(rng, {"size": 64})

    def timed_challenge(self, rng, workload):
        import torch

        size = workload["size"]  # random entries of this spread keep the powers near 1
        return Challenge({"matrix": torch.from_numpy(rng.standard_normal((size, size), "float32")) / size**0.5})

    @staticmethod
    def run(learner, challenge):
        import torch

        torch.set_num_threads(1)
        return learner.power(challenge["matrix"]).sum(dim=1)  # [size]

    @staticmethod
    def baseline(challenge):
        import torch

        torch.set_num_threads(1)
        result = matrix = challenge["matrix"]
        for _ in range(64):
            for _ in range(3):
                product = matrix @ result
            result = product
        return result.sum(dim=1)

    def verify(self, challenge, answer):
        yield Rung(self.RUNG, self.agrees(challenge, answer, self.baseline(challenge)) is None, "it is another matrix")

    def agrees(self, challenge, answer, expected):
        import torch

        return None if torch.allclose(answer, expected, rtol=1e-3, atol=1e-3) else "the row sums are not the power's"


def answer_with(products: int) -> str:
    """Code of an answer that computes this many products, those beyond 64 for nothing."""
    return f"""
def power(matrix):
    result = matrix
    for step in range(64):
        for _ in range({products} // 64 + (step < {products} % 64)):
            product = matrix @ result
        result = product
    return result
"""


# log(192 / 118) is 44% of log(192 / 64); with the round trip, which all sides pay, the half's is 45%
ANSWERS = {"reference": answer_with(64), "baseline": answer_with(192), "half": answer_with(118)}


def main() -> int:
    """0 when the rule keeps its promise on this machine, 1 when it does not."""
    found = prove(RUNS, progress=lambda text, fraction: out.print(f"{fraction:4.0%}  {text}"))
    for kind, counts in found["shares"].items():
        out.print(f"{kind:>9}: " + ", ".join(f"{share} of the speed points {n} times" for share, n in counts.items()))
    out.print("the promise is kept" if found["ok"] else "the promise is NOT kept")
    out.print(f"written to {write(found, repository() or Path.cwd())}")
    return 0 if found["ok"] else 1


def prove(runs: int, *, load: bool = True, progress: Callable[[str, float], None] | None = None) -> dict:
    """Judge each answer `runs` times, in turn, with all cores busy unless told otherwise; as plain data.

    ok: whether the promise is kept. shares: how often each answer got which share of the speed points. runs: each
    one, with the seconds of every block. machine: its card, read before the load began.
    """
    tell = progress or (lambda text, fraction: None)
    card = lab.machine_card()
    cells = {kind: [Cell(source, kind, 1)] for kind, source in ANSWERS.items()}
    done: list[dict] = []
    with busy_cores() if load else nullcontext(), Judge(reference=lambda name: cells["reference"]) as judge:
        for number in range(runs):
            for kind in ANSWERS:
                done.append(_row(kind, judge.judge(Power(), cells[kind])))
                tell(f"{number + 1} of {runs}: {_line(done[-1])}", len(done) / (runs * len(ANSWERS)))
    return {
        "ok": kept(done),
        "shares": shares(done),
        "loaded": load,
        "machine": card.to_json(),
        "python": platform.python_version(),
        "runs": done,
    }


@contextmanager
def busy_cores() -> Iterator[subprocess.Popen]:
    """A second process with a thread of matrix products for each usable core, for as long as this lasts."""
    numbers = (lab.hardware.usable_cores(), os.getpid(), LOAD_SECONDS)
    load = subprocess.Popen(
        [sys.executable, "-c", LOAD, *map(str, numbers)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    try:
        yield load
    finally:
        load.kill()
        load.wait()


def shares(done: list[dict]) -> dict[str, dict[str, int]]:
    """How often each answer got which share of the speed points."""
    return {kind: dict(Counter(f"{run['share']:g}" for run in done if run["kind"] == kind)) for kind in ANSWERS}


def kept(done: list[dict], promised: dict[str, tuple[float, float]] = PROMISED) -> bool:
    """Whether each answer got its share in the promised part of its runs, beside a reference that is fast enough."""
    for kind, (share, part) in promised.items():
        given = [run["share"] for run in done if run["kind"] == kind]
        if given.count(share) < part * len(given):
            return False
    return median(run["reference_ratio"] or 0.0 for run in done) >= LEAST_REFERENCE


def write(found: dict, root: Path) -> Path:
    """Keep what was found under a name made from the machine's."""
    machine = re.sub(r"\W+", "_", found["machine"]["name"]).strip("_").lower()
    path = root / "notebooks" / "reference" / f"speed_rule_{machine}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found) + "\n")
    return path


def _row(kind: str, verdict: Verdict) -> dict:
    """One run: what was decided and why, and the seconds of every block to the microsecond."""
    speed = verdict.speed or {"share": 0.0}
    row = {"kind": kind, "share": speed["share"], "review": verdict.review, "judged_in": round(verdict.seconds, 1)}
    for name in ("ratio", "reference_ratio", "score", "triples", "noisy", "workload", "calls_per_block", "tried"):
        row[name] = speed.get(name)
    sides = speed.get("seconds", {}).items()
    return row | {"seconds": {side: [round(block, 6) for block in blocks] for side, blocks in sides}}


def _line(run: dict) -> str:
    given = f"{run['kind']} gets {run['share']:g} of the speed points"
    if run["review"] or not run["ratio"]:
        return f"{given}: {run['review'] or 'speed was not measurable'}"
    noisy = ", noisy" if run["noisy"] else ""
    return (
        f"{given}, {run['ratio']:.2f}x beside {run['reference_ratio']:.2f}x, "
        f"{run['triples']} comparisons{noisy}, {run['judged_in']:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
