"""Students who set out to forge marks: each in a real notebook, at the tiers where they must fail.

They know everything: the course is public, and so is the judge. What works at the `process` tier is asserted as well,
with its failure at `sandbox`; `autograder/judge/TIERS.md` lists it.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import psutil
import pytest

from autograder import chapters, lab
from autograder.classroom.grade import grade
from autograder.course import release
from autograder.course.reference import references
from autograder.exercise import Challenge, Exercise, Rung
from autograder.judge import Cell, Judge, RungResult, Verdict, cells_of, read_cells, report_html, report_text, wire
from autograder.judge import process as judging_process
from autograder.judge.process import Bench, Died
from autograder.tests.processes import still_running

pytestmark = [pytest.mark.cheats, pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux")]

ROOT = Path(__file__).parents[2]
SLUG = "01_prefill_and_decode"
RELEASE = json.loads((ROOT / f"release/{SLUG}/{SLUG}.ipynb").read_text())
ANSWERS = Path(__file__).parent / "answers/01"
HONEST = (ANSWERS / "latency_metrics/right_with_a_loop.py").read_text()
LATENCY = "def latency_metrics(sent, token_times):\n"
TIERS = ("process", "sandbox")


# notebooks, judges, and the innocent student who comes next


def notebook(name: str, source: str) -> dict:
    """The released notebook with this in the exercise's answer cell, or in a new cell where it has none."""
    filled = copy.deepcopy(RELEASE)
    for cell in filled["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == f"{name}_solution":
            cell["source"] = source
            return filled
    filled["cells"].append({"cell_type": "code", "id": "new", "metadata": {}, "source": source, "outputs": []})
    return filled


def handed_in(folder: Path, name: str, source: str) -> list[Cell]:
    path = folder / "mine.ipynb"
    path.write_text(json.dumps(notebook(name, source)))
    return read_cells(path)


@pytest.fixture
def judged(judge, tmp_path):
    """The verdict on a notebook; the innocent one that the same judge judges next must have full marks."""

    def judged(exercise: Exercise | str, source: str) -> Verdict:
        exercise = chapters.find(exercise) if isinstance(exercise, str) else exercise
        verdict = judge.judge(exercise, handed_in(tmp_path, exercise.name, source))
        innocent = judge.judge(chapters.find("latency_metrics"), handed_in(tmp_path, "latency_metrics", HONEST))
        assert innocent.full and innocent.review is None, told(innocent)
        return verdict

    return judged


@pytest.fixture(scope="module", params=TIERS)
def judge(request):
    with Judge(tier=request.param, measure=False) as judge:
        yield judge


@pytest.fixture
def sandboxed(judge):
    """Whether the walls are up; what a test asserts of a theft is that only this stops it."""
    return judge.tier == "sandbox"


def told(verdict: Verdict) -> str:
    return " | ".join([verdict.note or "", verdict.review or "", *(rung.message for rung in verdict.rungs)])


# B, G, H, J: answers are data, and data is verified

CHANNEL = """
import gc, json, os, signal, socket, struct, sys, threading, time
def channel():
    frame = sys._getframe()
    while "channel" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["channel"]
def wire():
    return sys.modules["autograder.judge.wire"]
def message(value):
    data = wire().encode(value)
    return struct.pack(">Q", len(data)) + data
VERDICT = {"points": 5.0, "max_points": 5.0, "outcome": "full", "rungs": [], "review": None, "note": None}
"""
ZEROS = '{"ttft": 0.0, "tpot": 0.0, "itl": [0.0] * (len(token_times) - 1), "e2e": 0.0}'
FORGERIES = {  # what is tried: (code, the most it may earn, a word of the reason)
    "A every tool patched": (
        "import builtins, math, statistics, time\nimport numpy as np\nimport torch\n" + LATENCY + "    yes = lambda *a, **k: True\n"
        "    math.isclose = np.allclose = np.isclose = torch.allclose = torch.equal = yes\n"
        "    time.monotonic = time.perf_counter = lambda: 0.0\n    statistics.median = lambda values: 0.0\n"
        "    torch.nn.Linear.forward = lambda self, x: x\n    torch.set_default_dtype(torch.float64)\n"
        f"    return {ZEROS}",
        0,
        "expected",
    ),
    "B a verdict for an answer": (
        CHANNEL + LATENCY + "    wire().send(channel(), VERDICT)\n    return VERDICT",
        0,
        "must return a dict",
    ),
    "B a socket found among all objects": (
        CHANNEL + LATENCY + "    for thing in gc.get_objects():\n        try:\n"
        "            if isinstance(thing, socket.socket): thing.sendall(message(VERDICT))\n"
        "        except OSError: pass  # one that is closed\n    return VERDICT",
        0,
        "must return a dict",
    ),
    "B answers sent ahead of their questions": (
        CHANNEL + LATENCY + f"    for _ in range(3):\n        wire().send(channel(), {{'answer': {{'returned': {ZEROS}}}}})\n"
        f"    return {ZEROS}",
        0,
        "expected",
    ),
    "B a forged exit": (
        CHANNEL + LATENCY + "    text = json.dumps(VERDICT).encode()\n    for fd in map(int, os.listdir('/proc/self/fd')):\n"
        "        try:\n            os.write(fd, text)\n        except OSError:\n            pass\n"
        "    for place in ('.', '/tmp', '/dev/shm'):\n        try:\n"
        "            open(place + '/verdict-of-a-cheat.json', 'wb').write(text)\n"
        "            os.unlink(place + '/verdict-of-a-cheat.json')\n        except OSError:\n            pass\n    os._exit(0)",
        0,
        "did not come back",
    ),
    "B the sending function replaced": (
        CHANNEL + LATENCY + "    bench, send = sys.modules['autograder.judge.bench'], wire().send\n"
        "    bench.send = lambda channel, reply, *rest: send(channel, {'answer': VERDICT, 'points': 5, 'full': True})\n"
        "    return VERDICT",
        0,
        "could not be judged",
    ),
    "B every function a lie when it is loaded": (
        CHANNEL + "def take_over():\n    bench, c = sys.modules['autograder.judge.bench'], channel()\n"
        "    bench.run = lambda *a, **k: {'answer': True, 'ok': True}\n    bench.raised = lambda *a: {'answer': True}\n"
        "    return lambda *a: True\nlatency_metrics = take_over()",
        0,
        "must return a dict",
    ),
    "H not a number": (LATENCY + "    n = float('nan')\n    return dict(ttft=n, tpot=n, itl=[n], e2e=n)", 0, "nan"),
    "H infinite": (LATENCY + "    n = float('inf')\n    return dict(ttft=n, tpot=n, itl=[n], e2e=n)", 0, "inf"),
    "H the input changed": (
        LATENCY + f"    if token_times:\n        token_times[:] = [sent] * len(token_times)\n    return {ZEROS}",
        0,
        "expected",
    ),
    "J a constant": (LATENCY + "    return {'ttft': 1.0, 'tpot': 0.1, 'itl': [0.1], 'e2e': 2.0}", 0, "expected"),
    "a number equal to all": (
        "class Lie(float):\n    __eq__ = __le__ = __ge__ = lambda self, other: True\n    __hash__ = float.__hash__\n"
        "    __sub__ = __rsub__ = lambda self, other: 0.0\n"
        + LATENCY + "    n = Lie(7.0)\n    return dict(ttft=n, tpot=n, itl=[n] * (len(token_times) - 1), e2e=n)",
        0,
        "7",
    ),
    "a tensor that answers for itself": (
        "import torch\nclass Tensor(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, f, types, a=(), k=None):\n"
        "        if f.__name__ in ('eq', 'allclose', 'equal', 'item', '__bool__'):\n            return True\n"
        "        return super().__torch_function__(f, types, a, k or {})\n"
        + LATENCY + "    n = torch.ones(()).as_subclass(Tensor)\n    return dict(ttft=n, tpot=n, itl=[n], e2e=n)",
        0,
        "expected",
    ),
    "a class that says it is a dict": (
        "class Dict(dict):\n    def __getitem__(self, key): return Exception\n    def items(self): return [('ttft', 1.0)] * 9\n"
        "    __class__ = dict\n" + LATENCY + "    return Dict()",
        0,
        "The dict has no 'tpot'",
    ),
    "G the answer in the objects around": (
        CHANNEL + LATENCY + "    found = [o for o in gc.get_objects() if isinstance(o, dict) and 'ttft' in o]\n"
        "    found += [g for f in sys._current_frames().values() for g in [f.f_locals.get('expected')] if g]\n"
        "    found += [m for name, m in list(sys.modules.items()) if 'chapters' in name]\n"
        "    return found[0] if found else None",
        0,
        "it returned None",
    ),
}  # fmt: skip


@pytest.mark.parametrize("cheat", FORGERIES)
def test_a_forged_answer_earns_what_it_is_worth(judged, cheat):
    source, most, reason = FORGERIES[cheat]
    verdict = judged("latency_metrics", source)
    assert verdict.points <= most and reason in told(verdict), told(verdict)


GENERATE = "import sys\nimport torch\nfrom autograder import lab\n@torch.inference_mode()\ndef generate_timed(model, prompt_ids, new_tokens, *, sync, clock):\n"  # fmt: skip
LOOP = """    model = {model}
    tokens, times, ids, cache = [], [], prompt_ids, lab.new_cache(model)
    sync(); sent = clock()
    for _ in range({count}):
        ids = lab.forward(model, ids, cache).argmax(-1)
        tokens.append({token}); sync(); times.append(clock())
    return tokens, sent, times"""
SHORTENED = {
    "fewer tokens": ("model", "new_tokens - 1", "ids.item()", "tokens came"),
    "a skipped tail": ("model", "new_tokens", "ids.item() if len(tokens) < 3 else 0", "greedy is"),
    "less precision": ("model.to(torch.float8_e4m3fn).to(torch.float32)", "new_tokens", "ids.item()", "greedy is"),
    "half a layer": (
        "[setattr(model.model.layers[-1].mlp, 'forward', torch.zeros_like), model][1]",
        "new_tokens",
        "ids.item()",
        "greedy is",
    ),
}


@pytest.mark.parametrize("cheat", SHORTENED)
def test_j_less_work_than_was_asked_for_is_seen_in_the_tokens(judged, cheat):
    model, count, token, reason = SHORTENED[cheat]
    verdict = judged("generate_timed", GENERATE + LOOP.format(model=model, count=count, token=token))
    tokens = verdict.rungs[0]
    assert not tokens.ok and reason in tokens.message, told(verdict)


# controls


def test_controls_the_reference_another_right_answer_and_an_untouched_notebook(judge, tmp_path):
    exercise = chapters.find("latency_metrics")
    another = (ANSWERS / "latency_metrics/right_with_numpy.py").read_text()
    assert judge.judge(exercise, references()("latency_metrics")).outcome == "full"
    assert judge.judge(exercise, handed_in(tmp_path, "latency_metrics", another)).outcome == "full"
    untouched = judge.judge(exercise, cells_of(RELEASE))
    assert (untouched.outcome, untouched.points) == ("untouched", 0)


# E, G, M: what can be stolen


class Secret(Exercise):
    """A text that only the judge knows. A list of as many guesses as one likes may be handed in."""

    RUNG = "the judge's own text"
    name = "secret"
    rungs = {RUNG: 2}  # noqa: RUF012
    seconds = 40

    def __init__(self, text: str = "", **data) -> None:
        self.text, self.data = text, data

    def challenges(self, rng):
        label = secrets.token_hex(8)
        self.text = self.text or f"{label}:{rng.integers(1 << 62)}"
        yield Challenge({"label": label} | self.data)

    @staticmethod
    def run(learner, challenge):
        return learner.secret(challenge)

    def verify(self, challenge, answer):
        yield Rung(self.RUNG, isinstance(answer, list) and self.text in answer, "that is not it")


PLACES = ("gradebook.db", f"submitted/bea/{SLUG}/{SLUG}.ipynb", f"source/{SLUG}/{SLUG}.ipynb", ".env")


@pytest.mark.parametrize("place", PLACES)
def test_m_files_of_the_course_and_of_others_are_read_at_process_and_not_at_sandbox(judged, sandboxed, tmp_path, place):
    secret = Secret(secrets.token_hex(8), place=str(tmp_path / place))
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(secret.text)
    verdict = judged(secret, "def secret(given):\n    return [open(given['place']).read()]")
    assert verdict.full == (not sandboxed)
    assert not sandboxed or "FileNotFoundError" in told(verdict)


def test_m_the_network_is_there_at_process_and_not_at_sandbox(judged, sandboxed):
    with socket.create_server(("127.0.0.1", 0)) as server:
        secret = Secret(secrets.token_hex(8), port=server.getsockname()[1])

        def serve():
            with contextlib.suppress(OSError), server.accept()[0] as caller:
                caller.sendall(secret.text.encode())

        threading.Thread(target=serve, daemon=True).start()
        verdict = judged(
            secret,
            "import socket\ndef secret(given):\n"
            "    with socket.create_connection(('127.0.0.1', given['port']), timeout=5) as s:\n"
            "        return [s.recv(99).decode()]",
        )
        server.shutdown(socket.SHUT_RDWR)
    assert verdict.full == (not sandboxed)


def test_e_the_environment_of_the_judge_is_seen_at_process_and_not_at_sandbox(tmp_path, monkeypatch):
    text = secrets.token_hex(8)
    monkeypatch.setenv("A_SECRET_OF_THE_TEACHER", text)
    source = "import os\ndef secret(given):\n    return list(os.environ.values())"
    for tier in TIERS:
        with Judge(tier=tier) as judge:
            assert judge.judge(Secret(text), handed_in(tmp_path, "secret", source)).full == (tier == "process")


def test_e_the_seed_cannot_be_guessed(judged):
    verdict = judged(
        Secret(),
        """
import gc, os, random, re, time
import numpy as np
import torch
def secret(given):
    texts = [" ".join(f"{k}={v}" for k, v in os.environ.items())]
    for pid in ("self", os.getppid(), 1):
        for file in ("cmdline", "environ", "stat"):
            try:
                texts.append(open(f"/proc/{pid}/{file}").read())
            except OSError:
                pass
    seeds = {int(digits) for text in texts for digits in re.findall("[0-9]+", text)}
    seeds |= {int(given["label"], 16), torch.initial_seed(), random.getrandbits(32), int(np.random.get_state()[1][0])}
    seeds |= set(range(3000)) | {int(time.time()) - back for back in range(600)}
    made = [np.random.default_rng(seed) for seed in seeds]
    made += [thing for thing in gc.get_objects() if isinstance(thing, np.random.Generator)]
    return [f"{given['label']}:{rng.integers(1 << 62)}" for rng in made]
""",
    )
    assert verdict.points == 0 and "that is not it" in told(verdict), told(verdict)


def test_g_the_memory_of_the_judge_is_read_at_process_and_not_at_sandbox(judged, sandboxed):
    verdict = judged(
        Secret(),
        """
import os, re
def secret(given):
    judge = re.search(r"PPid:\\s+(\\d+)", open(f"/proc/{os.getppid()}/status").read())[1]
    wanted, found = re.compile(given["label"].encode() + rb":\\d{9,}"), []
    with open(f"/proc/{judge}/mem", "rb", 0) as memory:
        for line in open(f"/proc/{judge}/maps"):
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if " rw-p " in line and end - start < 1 << 28:
                try:
                    memory.seek(start)
                    found += wanted.findall(memory.read(end - start))
                except OSError:
                    pass
    return [text.decode() for text in found]
""",
    )
    assert verdict.full == (not sandboxed), told(verdict)


SOLUTIONS = {
    "source/": f"""
import json, autograder
from pathlib import Path
def solution():
    path = Path(autograder.__file__).parents[1] / "source/{SLUG}/{SLUG}.ipynb"
    cells = json.loads(path.read_text())["cells"]
    text = next(c["source"] for c in cells if "def latency_metrics" in "".join(c["source"]))
    exec("".join(text), globals())
    return latency_metrics
""",
    "the tests' answers": """
import autograder
from pathlib import Path
def solution():
    exec((Path(autograder.__file__).parent / "tests/answers/01/latency_metrics/right_with_numpy.py").read_text(), globals())
    return latency_metrics
""",
    "the installed package": """
def solution():
    from autograder.course.reference import references
    cells = references()("latency_metrics")
    exec(next(c.source for c in cells if "def latency_metrics" in c.source), globals())
    return latency_metrics
""",
}


@pytest.mark.parametrize("place", SOLUTIONS)
def test_g_the_courses_solution_is_imported_at_process_and_not_at_sandbox(judged, sandboxed, place):
    verdict = judged("latency_metrics", SOLUTIONS[place] + "latency_metrics = solution()")
    assert verdict.points == (0 if sandboxed else 5), told(verdict)
    assert not sandboxed or "FileNotFoundError" in told(verdict) or "ModuleNotFoundError" in told(verdict)


# I, O: other processes, and what is used up


def test_i_the_judge_is_reached_at_process_and_not_at_sandbox(judged, sandboxed):
    verdict = judged(
        Secret("signal affinity priority limits memory", pid=os.getpid()),
        """
import os, resource
def secret(given):
    pid, done = given["pid"], []
    ways = {
        "signal": lambda: os.kill(pid, 0),
        "affinity": lambda: os.sched_setaffinity(pid, os.sched_getaffinity(pid)),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid)),
        "limits": lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, resource.prlimit(pid, resource.RLIMIT_NOFILE)),
        "memory": lambda: open(f"/proc/{pid}/mem", "r+b").close(),
    }
    for name, way in ways.items():
        try:
            way()
            done.append(name)
        except OSError:
            pass
    return [" ".join(done)] if done else 1 / 0
""",
    )
    assert verdict.full == (not sandboxed), told(verdict)
    assert not sandboxed or "ZeroDivisionError" in told(verdict)


@pytest.mark.parametrize("tier", TIERS)
def test_i_the_judge_is_killed_at_process_and_not_at_sandbox(tmp_path, tier):
    path = tmp_path / "mine.ipynb"
    kill = (
        "import os, re\n"
        + LATENCY
        + (
            "    status = open(f'/proc/{os.getppid()}/status').read()\n"
            "    os.kill(int(re.search(r'PPid:\\s+(\\d+)', status)[1]), 9)\n    return {}"
        )
    )
    path.write_text(json.dumps(notebook("latency_metrics", kill)))
    program = "from autograder.cli import main; main()"
    words = ["check", str(path), "--exercise", "latency_metrics", "--tier", tier, "--json"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=200)
    if tier == "process":
        assert done.returncode == -signal.SIGKILL
    else:
        assert done.returncode == 1 and json.loads(done.stdout)["points"] <= 1


def test_o_files_stay_on_the_machine_at_process_and_not_at_sandbox(judged, sandboxed, tmp_path):
    size = 300 << 20  # more than a sandbox's /tmp holds
    verdict = judged(
        Secret("filled", folder=str(tmp_path), size=size),
        "import os, tempfile\ndef secret(given):\n"
        "    folder = given['folder'] if os.path.isdir(given['folder']) else tempfile.gettempdir()\n"
        "    with open(folder + '/left-by-a-cheat', 'wb') as file:\n"
        "        os.posix_fallocate(file.fileno(), 0, given['size'])\n    return ['filled']",
    )
    left = tmp_path / "left-by-a-cheat"
    assert verdict.full == left.exists() == (not sandboxed), told(verdict)


def test_o_the_compile_cache_of_later_checks_is_poisoned_at_process_and_not_at_sandbox(judged, sandboxed):
    folder = lab.setup.compile_cache()
    folder.mkdir(parents=True, exist_ok=True)
    planted = folder / "planted-by-a-test.py"
    try:
        verdict = judged(
            Secret("planted", path=str(planted)),
            "def secret(given):\n    open(given['path'], 'w').write('raise SystemExit')\n    return ['planted']",
        )
        assert verdict.full == planted.exists() == (not sandboxed), told(verdict)
    finally:
        planted.unlink(missing_ok=True)


DAEMONS = """
import ctypes, os, signal, time
def spawn(how_many, seconds, name=b"cheat"):
    for _ in range(how_many):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                ctypes.CDLL(None).prctl(15, name)  # what the machine calls this process
                time.sleep(seconds)
            os._exit(0)
"""


def test_o_daemons_do_not_outlive_their_exercise(judged, judge):
    verdict = judged(Secret("started"), DAEMONS + "def secret(given):\n    spawn(30, 60)\n    return ['started']")
    assert verdict.full
    everything = judge._learner._home.everything()
    assert [process.pid for process in everything] == [judge._learner._own.pid]


@pytest.mark.parametrize("tier", TIERS)
def test_o_a_daemon_whose_bench_was_killed_stays_at_process_and_not_at_sandbox(tmp_path, tier):
    name = f"cheat{secrets.token_hex(4)}"
    kill = (
        f"def secret(given):\n    spawn(1, 20, {name.encode()!r})\n    time.sleep(0.2)\n"
        "    os.kill(os.getppid(), 9)\n    return []"
    )
    with Judge(tier=tier) as judge:
        assert judge.judge(Secret("x"), handed_in(tmp_path, "secret", DAEMONS + kill)).points == 0
    left = [process for process in psutil.process_iter(["name"]) if process.info["name"] == name]
    assert len(still_running(left, seconds=1)) == (tier == "process")


# the judge itself as the victim

FLOODS = {
    "a call a microsecond, unanswered": (
        "    call, c = message({'call': 'x', 'args': [], 'kwargs': {}}), channel()\n"
        "    def drain():\n        while True: os.read(c.fileno(), 1 << 20)\n"
        "    threading.Thread(target=drain, daemon=True).start()\n    while True: c.sendall(call * 500)",
        "did not finish within|carried more than 16 MB",  # whichever this machine reaches first
    ),
    "one byte at a time": (
        "    for byte in message(VERDICT) * 99:\n        channel().sendall(bytes([byte])); time.sleep(0.1)",
        "did not finish within",
    ),
    "itself stopped": ("    os.kill(os.getpid(), signal.SIGSTOP)", "did not finish within"),
    "a message too long": ("    channel().sendall(struct.pack('>Q', 1 << 40)); time.sleep(99)", "too large"),
    "a message of ten million lists": (
        "    import safetensors.numpy\n    data = safetensors.numpy.save({}, {'tree': '[' + '[],' * 10_000_000 + '0]'})\n"
        "    channel().sendall(struct.pack('>Q', len(data)) + data); time.sleep(99)",
        "too many values",
    ),
    "a million lost names and a message that has them all": (
        "    names = [f'zz{i}' for i in range(300_000)]\n    lost = {'names': names, 'kind': 'E', 'message': '', 'frames': []}\n"
        "    wire().send(channel(), {'failures': [lost], 'missing': []})\n    while True:\n"
        "        wire().receive(channel())\n"
        "        told = {'kind': 'NameError', 'message': 'z' * 40_000_000, 'frames': ['z' * 40_000_000]}\n"
        "        wire().send(channel(), {'raised': told})",
        "",
    ),
}  # fmt: skip


class Quick(Secret):
    """The same with little time."""

    seconds = 3


@pytest.mark.parametrize("flood", FLOODS)
def test_whatever_a_worker_sends_ends_in_time_with_a_reason(judged, flood):
    body, reason = FLOODS[flood]
    at_load = flood.startswith("a million")
    source = f"def secret(given):\n{body}" if not at_load else f"def take_over():\n{body}\nsecret = take_over()"
    verdict = judged(Quick("x"), CHANNEL + source)
    assert verdict.points == 0 and re.search(reason, told(verdict)), told(verdict)


def test_a_sender_that_never_pauses_is_late_all_the_same():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire.send(theirs, {"call": "x"})
        with pytest.raises(wire.Late):
            wire.receive(ours, time.monotonic() - 1)


class Ask(Exercise):
    """A call that stays with the judge."""

    RUNG = "asked once"
    name = "ask"
    rungs = {RUNG: 1}  # noqa: RUF012

    def challenges(self, rng):
        yield Challenge({}, calls={"add": lambda a, b: None})

    @staticmethod
    def run(learner, challenge):
        return learner.ask(challenge["add"])

    def verify(self, challenge, answer):
        yield Rung(self.RUNG, len(challenge.log) == 1, "more than once")


def test_the_judge_does_not_keep_whatever_calls_carry(judged):
    verdict = judged(
        Ask(), "import torch\ndef ask(add):\n    while True:\n        add(torch.zeros(1 << 20), torch.zeros(1 << 20))"
    )
    assert verdict.points == 0 and "its calls carried more than 16 MB" in told(verdict), told(verdict)


STRANGE_CALLS = {
    "keywords and none": "try:\n        add(x=1)\n    except RuntimeError: pass",
    "a call that is not there": "try:\n        next(iter(add.__closure__))\n    except Exception: pass",
    "a huge number": "add(10 ** 300, -10 ** 300)",
    "not a number": "add(float('nan'), float('inf'))",
}


@pytest.mark.parametrize("call", STRANGE_CALLS)
def test_a_call_with_strange_arguments_is_the_learners_problem(judged, call):
    verdict = judged(Ask(), f"def ask(add):\n    {STRANGE_CALLS[call]}\n    add(1, 2)\n    add(1, 2)")
    assert verdict.points == 0 and "more than once" in told(verdict), told(verdict)


BENCH_ATTACKS = {
    "stopped": "    os.kill(os.getppid(), signal.SIGSTOP)",
    "killed": "    os.kill(os.getppid(), signal.SIGKILL)",
    "spoken for": (
        "    import ctypes\n    libc = ctypes.CDLL(None, use_errno=True)\n"
        "    bench = libc.syscall(434, os.getppid(), 0)\n"
        "    for number in range(3, 30):\n        fd = libc.syscall(438, bench, number, 0)\n"
        "        if fd >= 0 and 'socket' in os.readlink(f'/proc/self/fd/{fd}'):\n"
        "            for lie in ({'status': 'x'}, {'pid': 1}, {'token': None, 'number': 1}, [1], 'ready'):\n"
        "                os.write(fd, message(lie))"
    ),
    "written over": (
        "    import ctypes\n    with open(f'/proc/{os.getppid()}/mem', 'r+b', 0) as memory:\n"
        "        for line in open(f'/proc/{os.getppid()}/maps'):\n"
        "            if 'r-xp' in line and 'python' in line:\n"
        "                start, end = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "                memory.seek(start); memory.write(b'\\xcc' * (end - start))"
    ),
}


@pytest.mark.parametrize("attack", BENCH_ATTACKS)
def test_a_bench_that_was_attacked_is_replaced_before_the_next_exercise(judged, attack):
    verdict = judged(Quick("x"), CHANNEL + f"def secret(given):\n{BENCH_ATTACKS[attack]}\n    return []")
    assert verdict.points == 0 and verdict.outcome in ("none", "died"), told(verdict)


def test_a_folder_swapped_for_a_link_is_not_followed_when_the_bench_cleans_up(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept").touch()
    swap = (
        "import os, shutil\ndef secret(given):\n    own = os.path.dirname(os.environ['TORCHINDUCTOR_CACHE_DIR'])\n"
        "    shutil.rmtree(own)\n    os.symlink(given['victim'], own)\n    return [own]"
    )
    with Judge() as judge:
        judge.judge(exercise := Secret("x", victim=str(victim)), handed_in(tmp_path, exercise.name, swap))
        own = Path(judge._learner._scratch)
        assert own.is_symlink()
    own.unlink(missing_ok=True)
    assert (victim / "kept").exists()


# processes that cannot be caught

COMET = r"""
import subprocess
program = r'''
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(int, char **words) {  // each lives for a moment, and is gone before a list of processes has been read
    int file = open(words[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    double end = now() + atof(words[2]);
    setsid();
    while (now() < end) {
        for (double until = now() + 5e-5; now() < until;) {}
        if (write(file, "x", 1) == 1 && fork()) _exit(0);
    }
}
'''
def renew(path, seconds):
    subprocess.run(["g++", "-x", "c++", "-", "-o", path + ".out"], input=program.encode(), check=True)
    for _ in range(2):
        subprocess.run([path + ".out", path, str(seconds)])
"""


LONG_CALL = """import ctypes, os, subprocess, sys
CODE = '''
import ctypes
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size = 12 << 30  # of pages of zeros, which take no memory
place = libc.mmap(None, size, 1, 0x4022, -1, 0)
while True:
    libc.mmap(place, size, 1, 0x4022 | 0x8010, -1, 0)  # to be mapped at once, which a signal to stop waits for
'''
def secret(given):
    subprocess.Popen([sys.executable, "-I", "-S", "-c", CODE])
    return given
"""


@pytest.mark.cheats
def test_i_a_process_in_a_long_call_of_the_system_stands_still_before_others_are_timed(monkeypatch):
    bench = Bench(threads=1, walled=True)
    bench.wait_until_ready()
    worker = bench.worker()
    try:
        deadline = time.monotonic() + 60
        worker.define("run", Secret.run, deadline)
        worker.load([{"source": LONG_CALL, "file": "cell 1"}], [[0, i, []] for i in range(3)], 0, (), deadline)
        worker.run("run", Challenge({}), deadline)
        for _ in range(3):
            time.sleep(0.3)
            bench.stop()
            states = [process.status() for process in bench._everything()]
            assert len(states) >= 3 and set(states) <= {"stopped", "zombie"}, states
            bench.go_on()
        monkeypatch.setattr(judging_process, "_stands", lambda process: False)
        monkeypatch.setattr(judging_process, "STOP_SECONDS", 0.01)
        with pytest.raises(Died, match="could not be kept still"):
            bench.stop()
    finally:
        worker.close()
        bench.close()


def test_i_processes_that_renew_themselves_stand_still_while_others_are_timed():
    bench = Bench(threads=1, walled=True)
    bench.wait_until_ready()
    seen = bench._home.files() / "tmp/comet"

    def moves() -> bool:
        before, until = seen.stat().st_size, time.monotonic() + 0.3
        while seen.stat().st_size == before and time.monotonic() < until:
            time.sleep(0.01)
        return seen.stat().st_size != before

    worker = bench.worker()
    try:
        deadline = time.monotonic() + 60
        worker.define("run", Secret.run, deadline)
        cells = [{"source": COMET + "def secret(given):\n    renew('/tmp/comet', 20)\n", "file": "cell 1"}]
        worker.load(cells, [[0, i, []] for i in range(4)], 0, (), deadline)
        worker.run("run", Challenge({}), deadline)
        for _ in range(5):
            assert moves()
            bench.stop()
            assert not moves()
            bench.go_on()
        worker.close()
        assert [process.pid for process in bench._home.everything()] == [bench._own.pid]
    finally:
        bench.close()


# what the memory watch must see


HIDDEN = {  # hiding place: (code that fills it, bytes it fills at least)
    "thousands of empty files": ("for i in range(4000): open(f'/tmp/{i}', 'w').close()", 4_000_000),
    "full sockets": ("kept.extend(socket.socketpair() for _ in range(100))", 200 * 200_000),
    "page tables": (
        "file = open('/tmp/page', 'wb+'); file.truncate(2 << 20)\n"
        "    libc = ctypes.CDLL(None)\n    libc.mmap.restype = ctypes.c_void_p\n"
        "    for _ in range(3000):\n        at = libc.mmap(None, ctypes.c_size_t(2 << 20), 1, 1, file.fileno(), 0)\n"
        "        ctypes.string_at(at, 1)",
        8_000_000,
    ),
}


@pytest.fixture(scope="module")
def walled():
    bench = Bench(threads=1, walled=True)
    yield bench
    bench.close()


def one_run(worker, source: str, deadline: float):
    worker.define("run", Secret.run, deadline)
    keep = [[0, i, []] for i in range(len(ast.parse(source).body))]
    worker.load([{"source": source, "file": "cell 1"}], keep, 0, (), deadline)
    return worker.run("run", Challenge({}), deadline)


@pytest.mark.parametrize("place", HIDDEN)
def test_o_memory_of_the_kernels_that_a_sandbox_fills_counts_as_its_own(walled, place):
    code, least = HIDDEN[place]
    worker = walled.worker()
    try:
        before = walled._home.memory_bytes()
        source = f"import ctypes, socket\nkept = []\ndef secret(given):\n    {code}\n    return []"
        assert one_run(worker, source, time.monotonic() + 60) == []
        assert walled._home.memory_bytes() - before > least
    finally:
        worker.close()


def test_m_no_socket_leaves_the_sandbox_and_no_open_file_of_the_bench_can_be_taken(walled):
    source = """
import ctypes, os, socket
def secret(given):
    taken = []
    for family in range(50):  # 40 reaches the host of a virtual machine past every network namespace
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
            try:
                socket.socket(family, kind).close()
                taken.append(family)
            except OSError:
                pass
    libc = ctypes.CDLL(None, use_errno=True)
    bench = libc.syscall(434, os.getppid(), 0)
    files = [fd for fd in range(64) if libc.syscall(438, bench, fd, 0) >= 0]
    try:
        files.append(open(f"/proc/{os.getppid()}/mem", "rb"))
    except OSError:
        pass
    return sorted(set(taken)), len(files)
"""
    worker = walled.worker()
    try:
        families, files = one_run(worker, source, time.monotonic() + 60)
    finally:
        worker.close()
    assert set(families) <= {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK} and files == 0


# A, B, C, D, F, I, K, L: against the clock


class Iterate(Exercise):
    """x -> (a x + c) mod p, n times; the slow way does all of it three times."""

    RUNG = "the last of the chain"
    name = "iterate"
    rungs = {RUNG: 2}  # noqa: RUF012
    speed_points = 2
    speed_rung = "faster than three times"
    minimum_ratio = 2.0
    workloads = ({"n": 60_000}, {"n": 240_000}, {"n": 960_000})
    timed_seconds = 20

    def challenges(self, rng):
        yield self.timed_challenge(rng, {"n": 1000})

    @staticmethod
    def run(learner, challenge):
        return learner.iterate(challenge["x"], challenge["n"])

    def verify(self, challenge, answer):
        yield Rung(self.RUNG, answer == self._last(challenge), "not the last")

    def timed_challenge(self, rng, workload):
        return Challenge({"x": int(rng.integers(1 << 60)), "n": workload["n"]})

    @staticmethod
    def baseline(challenge):
        for _ in range(3):
            x = challenge["x"]
            for _ in range(challenge["n"]):
                x = (x * 48271 + 11) % 2305843009213693951
        return x

    def agrees(self, challenge, answer, expected):
        return None if answer == expected else "not the last of the chain"

    def _last(self, challenge) -> int:
        return self.baseline(challenge)


class Lean(Iterate):
    """The same with a limit on what may be kept."""

    held_bytes = 16 << 20


ONCE = """def iterate(x, n):
    for _ in range(n):
        x = (x * 48271 + 11) % 2305843009213693951
    return x
"""
SLOW = ONCE + "once = iterate\ndef iterate(x, n):\n    return [once(x, n) for _ in range(3)][0]\n"
RACES = {  # what is tried: (code, exercise, points, outcome, a word of the reason)
    "the reference": (ONCE, Iterate, 4, "full", ""),
    "the baseline handed in": (SLOW, Iterate, 2, "partial", "the speed of the slow way"),
    "A every clock patched": (
        "import statistics, time\nimport numpy as np\nimport torch\n" + SLOW + "def patched():\n"
        "    time.monotonic = time.perf_counter = time.time = torch.cuda.synchronize = lambda *a: 0.0\n"
        "    statistics.median = np.median = lambda values: 1e-9\n    torch.set_num_threads(1)\n    return iterate\n"
        "iterate = patched()",
        Iterate,
        2,
        "partial",
        "the speed of the slow way",
    ),
    "B an answer sent before its question": (
        CHANNEL + ONCE + "once = iterate\nasked = []\ndef iterate(x, n):\n    asked.append(once(x, n))\n"
        "    if len(asked) == 4: wire().send(channel(), {'answer': asked[-1]})\n    return asked[-1]",
        Iterate,
        2,
        "partial",
        "a timed answer was not right",
    ),
    "C an answer remembered by the length of the chain": (
        ONCE + "once, seen = iterate, {}\ndef iterate(x, n):\n"
        "    if n not in seen: seen[n] = once(x, n)\n    return seen[n]",
        Iterate,
        2,
        "partial",
        "a timed answer was not right",
    ),
    "D a thread that finishes later": (
        "import threading\nimport numpy as np\n" + ONCE + "once = iterate\ndef iterate(x, n):\n"
        "    if n <= 1000: return once(x, n)\n    later = np.zeros(1, dtype=np.int64)\n"
        "    threading.Timer(0.05, lambda: later.put(0, once(x, n))).start()\n    return later",
        Iterate,
        2,
        "partial",
        "a timed answer was not right",
    ),
    "F the timing told from the check": (
        "import sys\n" + ONCE + "once = iterate\ndef iterate(x, n):\n    f = sys._getframe()\n"
        "    while 'message' not in f.f_locals: f = f.f_back\n"
        "    return 0 if f.f_locals['message']['as'] == 'timed' else once(x, n)",
        Iterate,
        2,
        "partial",
        "a timed answer was not right",
    ),
    "I cores hogged while others are timed": (
        DAEMONS + SLOW + "def hogs():\n    for _ in range(4):\n        if os.fork() == 0:\n            os.setsid()\n"
        "            end = time.time() + 40\n            while time.time() < end:\n"
        "                if ' T ' not in open(f'/proc/{worker}/stat').read(): time.sleep(0.001)\n            os._exit(0)\n"
        "    return iterate\nworker = os.getpid()\niterate = hogs()",
        Iterate,
        2,
        "partial",
        "the speed of the slow way",
    ),
    "K a copy kept by a process that lost its parent": (
        "import os, time\n" + ONCE + "once = iterate\ndef keep():\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0:\n            kept = b'x' * (128 << 20)\n            time.sleep(60)\n        os._exit(0)\n"
        "    os.wait()\n    return once\niterate = keep()",
        Lean,
        2,
        "review",
        "MB more than the course's solution",
    ),
    "L the chain in closed form": (
        "def iterate(x, n):\n    p = 2305843009213693951\n    a = pow(48271, n, p)\n"
        "    return (a * x + 11 * (a - 1) * pow(48270, -1, p)) % p",
        Iterate,
        2,
        "review",
        "more than the square",
    ),
}


REPLACED_COUNTER = """import torch
class Int8Linear(torch.nn.Module):
    @classmethod
    def from_linear(cls, linear):
        from autograder import lab
        rows, columns = linear.weight.shape
        lab.alive.added = lambda before: rows * columns + 8 * rows
        layer = cls()
        layer.weight, layer.bias = linear.weight.detach().clone(), linear.bias
        return layer

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)
"""


@pytest.mark.cheats
@pytest.mark.parametrize("tier", TIERS)
def test_k_a_replaced_counter_of_bytes_earns_what_it_counts(tmp_path, tier):
    with Judge(tier=tier, measure=False) as judge:
        forged = judge.judge(chapters.find("Int8Linear"), handed_in(tmp_path, "Int8Linear", REPLACED_COUNTER))
        honest = REPLACED_COUNTER.replace("lab.alive.added = ", "unused = ")
        caught = judge.judge(chapters.find("Int8Linear"), handed_in(tmp_path, "Int8Linear", honest))
    assert [rung.ok for rung in forged.rungs[:3]] == [True] * 3
    assert [rung.ok for rung in caught.rungs[:3]] == [True, True, False]


IN_A_FILE = (
    "import tempfile\n" + ONCE + "once, kept = iterate, []\ndef iterate(x, n):\n    if n > 1000 and not kept:\n"
    "        kept.append(tempfile.TemporaryFile())\n        kept[0].write(b'x' * (64 << 20))\n    return once(x, n)"
)


@pytest.mark.cheats
@pytest.mark.alone
def test_k_a_copy_kept_in_a_file_is_seen_in_a_sandbox(tmp_path):
    with Judge(tier="sandbox", reference=lambda name: [Cell(ONCE, "r", 1)]) as judge:
        verdict = judge.judge(Lean(), handed_in(tmp_path, "iterate", IN_A_FILE))
    assert (verdict.points, verdict.outcome) == (2, "review") and "MB more than the course" in verdict.review


@pytest.fixture(scope="module", params=TIERS)
def racing(request):
    course = references()
    with Judge(tier=request.param, reference=lambda name: course(name) or [Cell(ONCE, "r", 1)]) as judge:
        yield judge


@pytest.mark.alone
@pytest.mark.parametrize("cheat", RACES)
def test_a_race_is_won_only_by_running(racing, tmp_path, cheat):
    source, exercise, points, outcome, reason = RACES[cheat]
    verdict = racing.judge(exercise(), handed_in(tmp_path, "iterate", source))
    assert (verdict.points, verdict.outcome) == (points, outcome) and reason in told(verdict), told(verdict)
    innocent = racing.judge(chapters.find("latency_metrics"), handed_in(tmp_path, "latency_metrics", HONEST))
    assert innocent.full, told(innocent)


FORGED_COUNTS = """
import sys
import torch
from autograder import lab
@torch.inference_mode()
def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):
    frame = sys._getframe()
    while "challenge" not in frame.f_locals:
        frame = frame.f_back
    counted = frame.f_locals["challenge"] if "forward" in frame.f_locals["challenge"] else None
    model.model._forward_pre_hooks.clear()
    model.lm_head._forward_pre_hooks.clear()
    ids, tokens, times, prompt = prompt_ids, [], [], prompt_ids.shape[1]
    sync()
    sent = clock()
    for i in range(new_tokens):
        newest = model(input_ids=ids, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, newest], dim=1)
        if counted:
            counted["forward"](prompt if i == 0 else 1, 0 if i == 0 else prompt + i - 1, False)
            counted["head"](1)
        tokens.append(newest.item())
        sync()
        times.append(clock())
    return tokens, sent, times
"""


FORGED_CHAT_TURN = """
import sys
import torch
@torch.inference_mode()
def chat_turn(model, cache, history_ids, reply_tokens):
    frame = sys._getframe()
    while "challenge" not in frame.f_locals:
        frame = frame.f_back
    counted = frame.f_locals["challenge"]
    hooks = dict(model.model._forward_pre_hooks)
    model.model._forward_pre_hooks.clear()
    held, T, reply, ids = cache or 0, history_ids.shape[1], [], history_ids
    for i in range(reply_tokens):
        token = model(input_ids=ids, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, token], dim=1)
        reply.append(token)
        counted["forward"](T - held if i == 0 else 1, held if i == 0 else T + i - 1, None)
    model.model._forward_pre_hooks.update(hooks)
    return torch.cat(reply, dim=1), T + reply_tokens - 1
"""

FORGED_PREFIX = """
import sys
import torch
from autograder import lab
@torch.inference_mode()
def generate_with_prefix(model, prefix_cache, prompt_ids, new_tokens):
    frame = sys._getframe()
    while "challenge" not in frame.f_locals:
        frame = frame.f_back
    counted = frame.f_locals["challenge"]
    hooks = dict(model.model._forward_pre_hooks)
    model.model._forward_pre_hooks.clear()
    ids, prompt, T = prompt_ids, prompt_ids[0].tolist(), prompt_ids.shape[1]
    found, tokens, first = min(counted["match"](prompt), T - 1), [], None
    for i in range(new_tokens):
        counted["forward"](1 if i else T - found, T + i - 1 if i else found, None)
        logits = lab.forward(model, ids)[0, -1]
        first = logits if first is None else first
        if not i:
            counted["insert"](prompt, T)
        tokens.append(logits.argmax().item())
        ids = torch.cat([ids, ids.new_tensor([tokens[-1:]])], dim=1)
    model.model._forward_pre_hooks.update(hooks)
    return tokens, first
"""

# what is forged: (code, rungs that are lost all the same)
MISCOUNTED = {
    "generate_timed": (FORGED_COUNTS, set()),
    "chat_turn": (FORGED_CHAT_TURN, set()),
    "generate_with_prefix": (FORGED_PREFIX, {"the stored keys and values are used: altered, they change the logits"}),
}


@pytest.mark.cheats
@pytest.mark.parametrize("name", MISCOUNTED)
def test_j_forged_counts_of_a_real_model_earn_what_they_count(judge, tmp_path, name):
    source, lost = MISCOUNTED[name]
    verdict = judge.judge(chapters.find(name), handed_in(tmp_path, name, source))
    assert {rung.name for rung in verdict.rungs[:-1] if not rung.ok} == lost, told(verdict)


@pytest.mark.alone
def test_j_forged_counts_of_a_real_model_are_contradicted_by_the_clock(racing, tmp_path):
    verdict = racing.judge(chapters.find("generate_timed"), handed_in(tmp_path, "generate_timed", FORGED_COUNTS))
    if verdict.speed["measurable"] is False:
        pytest.skip("this machine is too slow or too busy to contradict anybody")
    assert (verdict.points, verdict.outcome) == (6, "review"), told(verdict)
    assert "it counts as the fast way and takes as long as the slow one" in verdict.review
    right = (ANSWERS / "generate_timed/right_prefill_then_steps.py").read_text()
    innocent = racing.judge(chapters.find("generate_timed"), handed_in(tmp_path, "generate_timed", right))
    assert innocent.outcome == "full", told(innocent)


# N: what a kernel would believe


def test_n_tags_hooks_and_forged_outputs_change_no_mark(tmp_path):
    root = tmp_path / "course"
    (root / "source" / SLUG).mkdir(parents=True)
    shutil.copy(ROOT / f"source/{SLUG}/{SLUG}.ipynb", root / f"source/{SLUG}")
    shutil.copy(ROOT / "nbgrader_config.py", root)
    release.find_alembic()
    release.register(SLUG, root, f"sqlite:///{root}/gradebook.db")
    hooks = """
from IPython import get_ipython
shell = get_ipython()
shell.display_formatter.formatters["text/plain"].for_type(float, lambda value, *rest: "5.0")
shell.showtraceback = shell.showsyntaxerror = lambda *a, **k: print("5.0")
shell.set_custom_exc((Exception,), lambda *a, **k: 5.0)
check = print
"""
    forged = notebook("latency_metrics", hooks + LATENCY + "    return {}")
    for cell in forged["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade"):
            result = {"output_type": "execute_result", "data": {"text/plain": "20.0"}, "metadata": {}}
            cell |= {"outputs": [result | {"execution_count": 1}], "execution_count": 1, "source": "20.0"}
            cell["metadata"]["tags"] = ["skip-execution", "remove-cell"]
            cell["metadata"]["nbgrader"]["points"] = 100
    for student, made in (("ann", forged), ("bea", notebook("latency_metrics", HONEST))):
        (root / f"submitted/{student}/{SLUG}").mkdir(parents=True)
        (root / f"submitted/{student}/{SLUG}/{SLUG}.ipynb").write_text(json.dumps(made))
    summary = grade(SLUG, root=root, tier="sandbox", measure=False)
    assert {graded.student: graded.points for graded in summary.students} == {"ann": 0, "bea": 5}


# P: what a page would run


class Tags(HTMLParser):
    """The tags of a page and whatever in it could act."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.active = set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.active += [name for name, value in attrs if name.startswith("on") or "script:" in (value or "")]


LIVE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</span></div><iframe src='javascript:alert(1)'>",
    "<a href='javascript:alert(1)'>5 of 5</a>",
    '" onmouseover="alert(1)',
    "\x1b]8;;http://evil\x07link\x1b[2J\x9b31m",
    "\u202e5 fo 5\u202c\u2066\u2028  ok    ttft counts from sending\u2029",
    "[/bold][link=http://evil]x",
]


@pytest.mark.parametrize("text", LIVE)
@pytest.mark.parametrize("where", ["message", "type", "key", "line", "name"])
def test_p_nothing_a_learner_writes_acts_in_a_report(judged, where, text):
    body = {
        "message": f"raise ValueError({text!r} if token_times else '')",
        "type": f"raise type({text!r}, (Exception,), {{}})()",
        "key": f"return {{{text!r}: 1}}",
        "line": f"raise KeyError  # {text}".replace("\u2028", "").replace("\u2029", ""),
        "name": f"return type({text!r}, (), {{}})()",
    }[where]
    verdict = judged("latency_metrics", LATENCY + f"    {body}")
    assert verdict.points <= 1
    assert_tame(verdict)


@pytest.mark.parametrize("text", LIVE)
def test_p_nothing_in_any_part_of_a_verdict_acts(text):
    rungs = [RungResult(text, ok, 1, text) for ok in (True, False)]
    speed = {"measurable": False, "message": text}
    assert_tame(Verdict(text, 0, 2, "none", rungs, speed=speed, review=text, note=text))


def assert_tame(verdict: Verdict) -> None:
    page = Tags(report_html(verdict))
    assert page.tags <= {"div", "span", "img"} and not page.active
    words = report_text(verdict)
    assert not [
        c for c in words if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or unicodedata.bidirectional(c) in TURNS)
    ]
    assert len(words.splitlines()) == words.count("\n") + 1


TURNS = ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
