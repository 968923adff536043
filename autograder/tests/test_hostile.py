"""A hostile reading of the judge and of chapters 00 and 01: what broke them once, or gave marks away, or took them."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import psutil
import pytest
import safetensors.numpy

from autograder import chapters
from autograder.exercise import Challenge, Exercise, Rung, close, describe
from autograder.judge import Cell, Judge, report_text, wire
from autograder.judge.notebook import NotebookError, plain_python, read_notebook
from autograder.judge.slicing import slice_for
from autograder.tests.processes import still_running

pytestmark = [pytest.mark.faults, pytest.mark.cheats]


class Double(Exercise):
    """Twice a number."""

    SMALL, SAYS = "numbers are doubled", "text is a TypeError"
    name = "double"
    rungs = {SMALL: 2, SAYS: 1}  # noqa: RUF012
    seconds = 8

    def challenges(self, rng):
        yield Challenge({"x": float(rng.uniform(1, 9))}, decides=(self.SMALL,))
        yield Challenge({"x": "two"}, decides=(self.SAYS,), may_raise=True)

    @staticmethod
    def run(learner, challenge):
        return learner.double(challenge["x"])

    def verify(self, challenge, answer):
        if challenge["x"] == "two":
            yield Rung(self.SAYS, getattr(answer, "kind", "") == "TypeError", "text went through")
        else:
            yield Rung(self.SMALL, close(answer, 2 * challenge["x"]), f"{describe(answer)} is not twice")


class Pick(Exercise):
    """A quiz."""

    name = "PICK"
    quiz_points = 2
    key = {"a": ("up", "down"), "b": ("same", "same")}  # noqa: RUF012
    allowed = ("up", "down", "same")


CODE = {"cell_type": "code", "source": "y = 1\n" * 15_000}
RIGHT = "def double(x):\n    if isinstance(x, str):\n        raise TypeError\n    return {}"
IMPORTS = "import statistics\nimport numpy as np\nimport torch\nfrom autograder import lab"
TIME_CALLS = "def time_calls(work, *, warmup, repeats, sync, clock):\n"
SWEEP = "def sweep_prompt_lengths(generate, lengths, *, repeats, new_tokens, vocab_size, rng):\n"
GENERATE = "def generate_timed(model, prompt_ids, new_tokens, *, sync, clock):\n"
LATENCY = "def latency_metrics(sent, token_times):\n"


@pytest.fixture(scope="module")
def judge():
    with Judge(measure=False) as judge:
        yield judge


def verdict_on(judge, exercise, *sources):
    item = chapters.find(exercise) if isinstance(exercise, str) else exercise()
    return judge.judge(item, [Cell(source, f"c{i}", i) for i, source in enumerate(sources, 1)])


def told(verdict) -> str:
    return " ".join([verdict.note or "", verdict.review or "", *(r.message for r in verdict.rungs)])


def cli(tmp_path, source, exercise, *options):
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
    metadata = {"autograder": {"chapter": chapters.chapter_of(exercise)}}
    path = tmp_path / "x.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": [cell]}))
    command = [sys.executable, "-m", "autograder.cli", "check", str(path), "--exercise", exercise, *options]
    command[1:3] = ["-c", "from autograder.cli import main; main()"]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


# ---------------------------------------------------------------- 1. the judge itself falls over

CHANNEL = (
    "    frame = sys._getframe()\n    while 'channel' not in frame.f_locals: frame = frame.f_back\n"
    "    channel = frame.f_locals['channel']\n"
)
SEND = "    sys.modules['autograder.judge.wire'].send(channel, {})\n"
AT_LOAD = "import sys\ndef grab():\n" + CHANNEL + SEND + "    return lambda x: 2 * x\ndouble = grab()"
AT_RUN = "import sys\ndef double(x):\n" + CHANNEL + SEND + "    return 2 * x"
FORGED = {
    "load: nothing in it": AT_LOAD.format("{}"),
    "load: failures are no dicts": AT_LOAD.format("{'failures': [1], 'missing': ['double']}"),
    "load: missing is no list": AT_LOAD.format("{'failures': [], 'missing': 5}"),
    "load: a call": AT_LOAD.format("{'call': 'x', 'args': []}"),
    "run: raised is no dict": AT_RUN.format("{'raised': 5}"),
    "run: raised has no kind": AT_RUN.format("{'raised': {}}"),
    "run: frames are no list": AT_RUN.format("{'raised': {'kind': 'a', 'message': 'b', 'frames': 3}}"),
}


@pytest.mark.parametrize("source", FORGED.values(), ids=FORGED.keys())
def test_a_forged_reply_is_the_learners_zero_and_not_the_judges_traceback(judge, source):
    assert verdict_on(judge, Double, source).points == 0


def test_a_forged_numpy_scalar_that_is_its_own_item_is_a_zero(judge):
    forge = (
        "    import json, struct, safetensors.numpy\n"
        "    tree = json.dumps({'dict': [['answer', {'scalar': ['longdouble', 1.0]}]]})\n"
        "    data = safetensors.numpy.save({}, {'tree': tree})\n"
        "    channel.sendall(struct.pack('>Q', len(data)) + data)\n    return 2 * x"
    )
    assert verdict_on(judge, Double, "import sys\ndef double(x):\n" + CHANNEL + forge).points == 0


def test_a_whole_number_of_1024_bits_is_a_wrong_answer(judge):
    assert verdict_on(judge, Double, "def double(x): return 2**1024 - 1").points == 0


@pytest.mark.parametrize("literal", ["1" + "0" * 400, "{'a': (1" + "0" * 400 + ", 'down')}"], ids=["whole", "leaf"])
def test_a_long_whole_number_in_a_quiz_is_a_wrong_answer(judge, literal):
    assert verdict_on(judge, Pick, f"PICK = {literal}").points <= 0.5


DEEP = {
    "a sum of 100,000 terms": "x = 1" + "+1" * 100_000,
    "100,000 minus signs": "x = " + "-" * 100_000 + "1",
    "an attribute of an attribute of ...": "x = a" + ".b" * 100_000,
    "20,000 elifs": "if 1: pass\n" + "elif 1: pass\n" * 20_000,
}


@pytest.mark.parametrize("source", DEEP.values(), ids=DEEP.keys())
def test_a_cell_that_is_nested_too_deeply_is_only_unreadable(judge, source):
    assert verdict_on(judge, Double, source, RIGHT.format("2 * x")).full


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_lone_surrogate_in_an_exception_can_be_printed(tmp_path, options):
    done = cli(tmp_path, "def median_and_iqr(s): raise RuntimeError('\\ud800')", "median_and_iqr", *options)
    assert done.returncode == 1 and "Traceback" not in done.stderr and done.stdout


def test_what_a_notebook_shows_is_text(judge):
    verdict = verdict_on(judge, Double, "def double(x): raise ValueError('\\ud800')")
    report_text(verdict).encode()
    json.dumps(verdict.to_json(), ensure_ascii=False).encode()


def test_the_scripted_server_does_not_generate_millions_of_tokens_in_the_judge():
    import torch

    from autograder.chapters.c01_prefill_and_decode import _ScriptedServer

    # 3e7 through the judge: 10.7 GB in the judge's own process, then SafetensorError out of Worker.run
    with pytest.raises(ValueError):
        _ScriptedServer(np.random.default_rng(0)).generate(torch.zeros(1, 8, dtype=torch.int64), 2_000_000)


def _message(tree, arrays=None) -> bytes:
    return safetensors.numpy.save(arrays or {}, {"tree": json.dumps(tree)})


def test_one_tensor_is_not_copied_for_every_time_it_is_named():
    with pytest.raises(wire.WireError):  # 4 KB of message, 100,000 names: 100 GB
        wire.decode(_message([{"array": "a"}] * 5000, {"a": np.zeros(256, dtype=np.float32)}))


def test_the_receiver_counts_values_too(monkeypatch):
    monkeypatch.setattr(wire, "MAX_VALUES", 1000)
    with pytest.raises(wire.WireError):
        wire.decode(safetensors.numpy.save({}, {"tree": "[" + "[]," * 3000 + "[]]"}))


def test_reading_cells_warns_nobody():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        slice_for([Cell("label = '\\mu'\ndef double(x):\n    return label", "c", 1)], ["double"])
    assert not seen


def test_the_desk_does_not_stand_still_once_its_stderr_pipe_is_full(tmp_path):
    # -W always is what Python 3.12 and 3.13 do by themselves with invalid escapes ("$\mu$" in a plot's label):
    # nobody reads the pipe, about 64 KB of warnings and the next check never comes back
    source = "\n".join(f"a{i} = '\\d'" for i in range(700))
    request = {"name": "SPOT_THE_MISTAKE", "standing": [], "folder": str(tmp_path)}
    request["cells"] = [{"source": source, "id": "a", "count": 1}]
    command = [sys.executable, "-I", "-W", "always", "-m", "autograder.course.desk"]
    pipe = subprocess.PIPE
    desk = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        desk.stdin.write(json.dumps(request) + "\n")
        desk.stdin.flush()
        assert select.select([desk.stdout], [], [], 12)[0], "no answer"
    finally:
        desk.kill()
        desk.wait()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_an_endless_worker_does_not_outlive_its_judge(tmp_path, how):
    """What a CI job, a closed terminal or the out-of-memory killer does to `autograder check`."""
    program = (
        "from autograder import chapters\nfrom autograder.judge import Cell, Judge\n"
        "source = 'def median_and_iqr(s):\\n    while True: pass'\n"
        "with Judge() as judge:\n    judge.judge(chapters.find('median_and_iqr'), [Cell(source)])"
    )
    judging = subprocess.Popen([sys.executable, "-c", program])
    children: list[psutil.Process] = []
    until = time.monotonic() + 60
    while time.monotonic() < until and (len(children) < 2 or children[-1].cpu_times().user < 0.5):
        time.sleep(0.2)
        children = psutil.Process(judging.pid).children(recursive=True)
    judging.send_signal(how)
    judging.wait()
    assert not still_running(children)


def test_messages_have_a_length(judge):
    source = "def double(x): raise type('E' * 300_000, (Exception,), {})()"
    assert len(told(verdict_on(judge, Double, source))) < 20_000
    assert len(told(verdict_on(judge, Double, "def double(x): return {'k' * 300_000: 1}"))) < 20_000
    assert len(told(verdict_on(judge, Double, f"def double(x): raise ValueError  # {'y' * 300_000}"))) < 20_000


def test_a_cell_full_of_magics_does_not_cost_minutes():
    started = time.monotonic()
    plain_python(
        "!ls\n" * 40 + "y = 1\n" * 5000
    )  # 0.1 s per magic line here; 499 lines in a cell of 1 MB: half an hour
    assert time.monotonic() - started < 1


LONG = """
import torch
from autograder.classroom import submission
from autograder.exercise import numbers
from autograder.judge.notebook import plain_python

picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo" + " " * 2_900_000 + "!"}}
assert submission.clean({"cells": [{"cell_type": "code", "outputs": [picture]}]}).cells[0].outputs == []
assert len({cell.id for cell in submission.clean({"cells": [{}] * 20_000}).cells}) == 20_000
text = {"cell_type": "markdown", "source": "a" * 200_000}
shown = [min(len(cell.source), submission.MAX_TEXT) for cell in submission.clean({"cells": [text] * 99}).cells]
assert shown[:15] == [submission.MAX_TEXT] * 15 and sum(shown) < 310_000
for odd in ("\\n" * 1_000_000 + "y", " " * 400_000 + "y", "a, " * 130_000 + "!", "get_ipython().system(" * 9000):
    plain_python("x = = 1\\n" + odd)
plain_python("%%time\\n" * 60_000)
assert numbers(torch.zeros(8_000_000, dtype=torch.uint8)) is None
assert numbers(torch.zeros(900_000, dtype=torch.uint8)) == [0.0] * 900_000
"""


def test_what_a_student_hands_in_costs_time_by_its_length_and_not_by_its_square():
    subprocess.run([sys.executable, "-c", LONG], check=True, timeout=200)  # minutes to hours, each of them, by squares


@pytest.mark.parametrize(
    "keys",
    [[k * (2**61 - 1) for k in range(60_000)], [{"tuple": [k]} for k in range(60_000)]],
    ids=["whole numbers", "tuples"],
)
def test_a_dict_whose_keys_may_have_been_chosen_to_collide_is_refused(keys):
    with pytest.raises(wire.WireError):
        wire.decode(_message({"dict": [[key, 0] for key in keys]}))


def test_a_quiz_has_no_more_parts_than_a_reader_would_write(judge):
    many = ", ".join(f"{k * (2**61 - 1)}: 0" for k in range(20_000))
    assert verdict_on(judge, Pick, f"PICK = {{{many}}}").points == 0


@pytest.mark.parametrize(("cells", "why"), [([{}] * 2001, "cells"), ([CODE] * 6, "characters of code")])
def test_a_notebook_has_an_end(tmp_path, cells, why):
    path = tmp_path / "long.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    with pytest.raises(NotebookError, match=why):
        read_notebook(path)


# ---------------------------------------------------------------- 2. zeros and reviews with the wrong reason


@pytest.mark.parametrize(
    "value", ["np.sqrt", "np.matrix([[1, 2]])", "Lying()"], ids=["ufunc", "matrix", "lying module"]
)
def test_a_value_the_wire_cannot_pack_is_named_and_costs_only_its_own_rungs(judge, value):
    source = "import numpy as np\nclass Lying: pass\nLying.__module__ = 'numpy'\n"
    source += f"def double(x):\n    if isinstance(x, str): raise TypeError\n    return {value}"
    verdict = verdict_on(judge, Double, source)
    assert (verdict.outcome, verdict.points) == ("partial", 1), told(verdict)


WORKLESS = "    out = []\n    for _ in range({0}):\n        sync(); t = clock(); work; sync(); out.append(clock() - t)\n    return out"


def test_a_clock_read_without_any_work_is_a_wrong_answer_and_not_a_review(judge):
    verdict = verdict_on(judge, "time_calls", TIME_CALLS + WORKLESS.format("repeats"))
    assert verdict.outcome == "none" and "never called" in told(verdict), told(verdict)


def test_not_implemented_by_torch_is_not_not_answered(judge):
    verdict = verdict_on(judge, Double, "import torch\ndef double(x): return torch.tensor([True]).median()")
    assert verdict.outcome == "none" and "median" in told(verdict), told(verdict)


LOST = {
    "a file beside the notebook": ("from my_helpers import two", "ModuleNotFoundError"),
    "a failing value": ("two = 1 / 0", "ZeroDivisionError"),
    "an exit": ("class two:\n    raise SystemExit", "SystemExit"),
}


@pytest.mark.parametrize("case", LOST)
def test_a_name_that_was_lost_is_reported_with_what_lost_it(judge, case):
    statement, cause = LOST[case]
    assert cause in told(verdict_on(judge, Double, statement, RIGHT.format("two * x")))


QUIZZES = {
    "entry by entry": "PICK['a'] = ('up', 'down')\nPICK['b'] = ('same', 'same')",
    "merged": "PICK |= {'a': ('up', 'down'), 'b': ('same', 'same')}",
    "updated": "PICK.update({'a': ('up', 'down'), 'b': ('same', 'same')})",
}


@pytest.mark.parametrize("source", QUIZZES.values(), ids=QUIZZES.keys())
def test_a_quiz_filled_in_another_way_is_not_called_unanswered(judge, source):
    verdict = verdict_on(judge, Pick, 'PICK = {"a": (None, None), "b": (None, None)}', source)
    assert verdict.full or "plain dict" in verdict.note, verdict.note


# ---------------------------------------------------------------- 3. the slice: right code that loses points

SLICES = {
    "a list filled by append in a loop": ["t = []\nfor i in range(3):\n    t.append(i)", RIGHT.format("t[2] * x")],
    "a list filled by append": ["t = []\nt.append(2)", RIGHT.format("t[0] * x")],
    "a dict updated": ["t = {}\nt.update(k=2)", RIGHT.format("t['k'] * x")],
    "a set": ["t = set()\nt.add(2)", RIGHT.format("max(t) * x")],
    "singledispatch": [
        "from functools import singledispatch\n@singledispatch\ndef double(x):\n    return 2 * x\n"
        "@double.register\ndef _(x: str):\n    raise TypeError"
    ],
    "a set-up function with globals": ["def init():\n    global two\n    two = 2", "init()", RIGHT.format("two * x")],
    "an early value read through a function, then replaced": [
        "def helper():\n    return base",
        "base = 2\nk = helper()\nbase = 5",
        RIGHT.format("k * x + 0 * base"),
    ],
    "a decoration that fails": [RIGHT.format("2 * x"), "double = no_such_jit(double)"],
    "an attribute that cannot be set": [RIGHT.format("2 * x"), "double.seconds = no_such_timer(double)"],
    "an entry that cannot be set": ["t = {'a': 2}", "t['b'] = 1 / 0", RIGHT.format("t['a'] * x")],
    "a test loop over the same name that fails": [
        "two = 2\n" + RIGHT.format("two * x"),
        "for two in [2, 3]:\n    assert double(two) == 0",
    ],
    "a star import in a try": [
        "try:\n    from math import *\nexcept ImportError:\n    pass",
        RIGHT.format("2 * x + 0 * pi"),
    ],
    "setattr": [RIGHT.format("double.two * x"), "setattr(double, 'two', 2)"],
    "a deeper recursion allowed": [
        "import sys\nsys.setrecursionlimit(5000)",
        "def deep(n):\n    return 0 if n == 0 else 1 + deep(n - 1)",
        RIGHT.format("deep(2000) * x / 1000"),
    ],
}


@pytest.mark.parametrize("sources", SLICES.values(), ids=SLICES.keys())
def test_right_code_is_right(judge, sources):
    verdict = verdict_on(judge, Double, *sources)
    assert verdict.full, told(verdict)


# ---------------------------------------------------------------- 4. marks without the work

FOR_NOTHING = {
    "median_and_iqr: the text 'ValueError' for an exception": (
        "median_and_iqr",
        "import numpy as np\ndef median_and_iqr(s):\n    if not s: return 'ValueError'\n"
        "    a, b, c = np.quantile(s, (0.25, 0.5, 0.75))\n    return b, c - a",
        2,
    ),
    "paired_ratio: nothing but a ValueError": ("paired_ratio", "def paired_ratio(*a, **k): raise ValueError", 0),
    "paired_ratio: nothing but the text": ("paired_ratio", "def paired_ratio(*a, **k): return 'ValueError'", 0),
    "latency_metrics: the text 'ValueError'": (
        "latency_metrics",
        LATENCY + "    if not token_times: return 'ValueError'\n    t = token_times\n"
        "    g = [b - a for a, b in zip(t, t[1:])]\n    tpot = sum(g) / len(g) if g else None\n"
        "    return {'ttft': t[0] - sent, 'tpot': tpot, 'itl': g, 'e2e': t[-1] - sent}",
        4,
    ),
    "sweep: one prompt whose last id changes": (
        "sweep_prompt_lengths",
        IMPORTS + "\n" + SWEEP + "    base = lab.random_prompt(max(lengths), vocab_size=vocab_size, rng=rng)\n"
        "    sent_so_far = [0]\n    def one(length):\n        p = base[:, :length].clone()\n        sent_so_far[0] += 1\n"
        "        p[0, -1] = (p[0, -1] + sent_so_far[0]) % vocab_size\n        _, s, t = generate(p, new_tokens)\n"
        "        return t[0] - s, (t[-1] - t[0]) / (len(t) - 1)\n    out = {}\n    for n in lengths:\n        one(n)\n"
        "        a, b = zip(*(one(n) for _ in range(repeats)))\n"
        "        out[n] = statistics.median(a), statistics.median(b)\n    return out",
        4,
    ),
    "sweep: consecutive ids": (
        "sweep_prompt_lengths",
        IMPORTS + "\n" + SWEEP + "    torch.rand(1, generator=rng)\n    made = [0]\n    def one(length):\n"
        "        made[0] += 1\n        p = (torch.arange(length) + vocab_size - length - made[0]).unsqueeze(0)\n"
        "        _, s, t = generate(p, new_tokens)\n        return t[0] - s, (t[-1] - t[0]) / (len(t) - 1)\n"
        "    out = {}\n    for n in lengths:\n        one(n)\n        a, b = zip(*(one(n) for _ in range(repeats)))\n"
        "        out[n] = statistics.median(a), statistics.median(b)\n    return out",
        4,
    ),
    "WHAT_CHANGES: one value twelve times": (
        "WHAT_CHANGES",
        "WHAT_CHANGES = "
        + repr(
            {
                change: ("almost unchanged", "almost unchanged")
                for change in (
                    "prompt x4",
                    "output x4",
                    "half the bytes per weight",
                    "twice the arithmetic",
                    "twice the bandwidth",
                    "prefix already cached",
                )
            }
        ),
        0.5,
    ),
}


@pytest.mark.parametrize("case", FOR_NOTHING)
def test_no_marks_without_the_work(judge, case):
    name, source, at_most = FOR_NOTHING[case]
    verdict = verdict_on(judge, name, source)
    assert verdict.points <= at_most


# ---------------------------------------------------------------- 5. right answers of the two chapters

LOOP = """    tokens, times, ids, cache = [], [], prompt_ids, lab.new_cache(model)
    {before}
    sync(); sent = clock()
    for _ in range(new_tokens):
        {step}
        tokens.append(ids.item()); sync(); times.append(clock())
    return tokens, sent, times"""
MASKED = (
    "mask = torch.ones(1, cache.get_seq_length() + ids.shape[1], dtype=torch.long); "
    "h = model.model(attention_mask=mask, input_ids=ids, past_key_values=cache, use_cache=True).last_hidden_state; "
    "ids = model.lm_head(h[:, -1:]).argmax(-1)"
)
STEP = "ids = lab.forward(model, ids, cache).argmax(-1)"
HONEST = {
    "sweep: a pair as an array": (
        "sweep_prompt_lengths",
        SWEEP + "    out = {}\n    for n in lengths:\n        rows = []\n        for k in range(repeats + 1):\n"
        "            p = lab.random_prompt(n, vocab_size=vocab_size, rng=rng)\n            _, s, t = generate(p, new_tokens)\n"
        "            if k: rows.append([t[0] - s, (t[-1] - t[0]) / (len(t) - 1)])\n"
        "        out[n] = np.median(rows, axis=0)\n    return out",
        5,
    ),
    "generate: parameters that want no gradient": (
        "generate_timed",
        GENERATE + LOOP.format(before="model.requires_grad_(False)", step=STEP),
        6,
    ),
    "generate: the mask named before the ids": (
        "generate_timed",
        "import torch\n"
        + GENERATE
        + "    with torch.no_grad():\n        return inner(model, prompt_ids, new_tokens, sync, clock)\n"
        "def inner(model, prompt_ids, new_tokens, sync, clock):\n" + LOOP.format(before="", step=MASKED),
        6,
    ),
    "time_calls: a deque": (
        "time_calls",
        "from collections import deque\n" + TIME_CALLS + "    out = deque(maxlen=repeats)\n"
        "    for _ in range(warmup + repeats):\n        sync(); t = clock(); work(); sync(); out.append(clock() - t)\n"
        "    return out",
        6,
    ),
}


@pytest.mark.parametrize("case", HONEST)
def test_a_right_answer_keeps_its_marks(judge, case):
    name, source, points = HONEST[case]
    verdict = verdict_on(judge, name, IMPORTS, source)
    assert verdict.points == points, told(verdict)


def test_a_rounded_gap_is_called_rounded(judge):
    source = LATENCY + (
        "    if not token_times: raise ValueError\n    t = torch.tensor([x - sent for x in token_times])\n    g = t.diff()\n"
        "    return dict(ttft=t[0], tpot=g.mean() if len(g) else None, itl=g, e2e=t[-1])"
    )
    verdict = verdict_on(judge, "latency_metrics", IMPORTS, source)
    assert "round" in told(verdict) or verdict.full, told(verdict)  # "The first is 0.02543, expected 0.02543."


# ---------------------------------------------------------------- 6. what mending could break

CELLS = {  # all of them run in a notebook
    "a magic, and an operator that begins a line": "%matplotlib inline\n"
    + RIGHT.format("(\n        (2 * x)\n        % 1e9\n    )"),
    "a magic, and % formatting on the next line": "%matplotlib inline\nlabel = (\n    'n=%d'\n    % 3\n)\n"
    + RIGHT.format("2 * x"),
    "a shell line, and a text with a % line": "!ls\ntext = '''\n%d\n'''\n"
    + RIGHT.format("2 * x * (text.strip() == '%d')"),
    "a magic, and a text that ends in a ! line": "%matplotlib inline\ntext = '''a\n!b'''\n"
    + RIGHT.format("2 * x * text.endswith('!b')"),
    "a shell line that goes on": "!pip install \\\n    torch\n" + RIGHT.format("2 * x"),
    "an indented cell": "    " + RIGHT.format("2 * x").replace("\n", "\n    "),
    "an indented cell with a magic": "    %matplotlib inline\n    " + RIGHT.format("2 * x").replace("\n", "\n    "),
}


@pytest.mark.parametrize("source", CELLS.values(), ids=CELLS.keys())
def test_a_cell_that_jupyter_runs_is_read(judge, source):
    verdict = verdict_on(judge, Double, source)
    assert verdict.full, told(verdict)


def test_slicing_a_chain_of_values_does_not_grow_with_the_cube():
    source = "x0 = 1\n" + "\n".join(f"x{i} = x{i - 1} + 1" for i in range(1, 800)) + "\ndef double(y): return x799"
    started = time.monotonic()
    slice_for([Cell(source, "c", 1)], ["double"])
    assert time.monotonic() - started < 15  # a cube took 38 s, a line takes a fraction of one


def test_a_bench_outlives_the_thread_that_started_it():
    """PR_SET_PDEATHSIG follows the thread: a bench started early from a pool's thread is killed with it."""
    import threading

    with Judge(measure=False) as judge:
        thread = threading.Thread(target=lambda: judge._bench())  # started, and waited for
        thread.start()
        thread.join()
        time.sleep(1)
        assert judge._learner.alive


@pytest.mark.parametrize("before", ["from math import *", "import torch\ntorch.set_default_dtype(torch.float64)"])
def test_a_cell_that_is_not_python_is_named_whatever_else_is_always_kept(judge, before):
    assert "is not Python" in told(verdict_on(judge, Double, before, "def double(x) return 2 * x"))
    assert verdict_on(judge, Double, before, "y = 1").points == 0


def test_a_learners_own_child_does_not_outlive_a_killed_judge():
    source = (
        "import os, time\ndef double(x):\n    if os.fork() == 0:\n        os.setsid()\n        end = time.time() + 30\n"
        "        while time.time() < end: pass\n        os._exit(0)\n    while True: pass"
    )
    program = (
        "from autograder.judge import Cell, Judge\nfrom autograder.tests.test_judging import Double\n"
        f"with Judge() as judge: judge.judge(Double(), [Cell({source!r})])"
    )
    judging = subprocess.Popen([sys.executable, "-c", program])
    children: list[psutil.Process] = []
    until = time.monotonic() + 60
    while time.monotonic() < until and len(children) < 3 and judging.poll() is None:
        time.sleep(0.1)
        children = psutil.Process(judging.pid).children(recursive=True)
    judging.terminate()
    judging.wait()
    assert len(children) == 3 and not still_running(children)
