"""Learners' code as it is really written: what the slice keeps, drops and runs."""

from __future__ import annotations

import pytest

from autograder.judge import Cell
from autograder.judge.bench import load
from autograder.judge.slicing import last_literal, slice_for


@pytest.fixture(autouse=True)
def main_module_is_ours(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def run(*sources: str, needs: str = "answer"):
    """Slice the cells for one name and execute what is kept; (the module, the report)."""
    import types

    cells = [Cell(source, f"c{i}", i) for i, source in enumerate(sources, start=1)]
    part = slice_for(cells, [needs])
    learner = types.ModuleType("__main__")
    message = {"cells": part.cells, "keep": part.keep, "flags": part.flags, "needs": [needs]}
    return learner, load(learner, message) | {"absent": part.missing, "unreadable": part.unreadable}


# what a learner wrote -> what answer() must give
CORPUS = {
    "plain": ["def answer():\n    return 1"],
    "a helper in another cell": ["def helper():\n    return 1", "def answer():\n    return helper()"],
    "a helper defined after its use": ["def answer():\n    return helper()", "def helper():\n    return 1"],
    "a global computed from a global": ["base = 2", "half = base // 2", "def answer():\n    return half"],
    "the last definition counts": ["def answer():\n    return 0", "def answer():\n    return 1"],
    "a wrapper around the first version": [
        "def answer():\n    return 0",
        "first = answer\ndef answer():\n    return first() + 1",
    ],
    "a decorator": [
        "import functools",
        "def plus_one(f):\n    @functools.wraps(f)\n    def g():\n        return f() + 1\n    return g",
        "@plus_one\ndef answer():\n    return 0",
    ],
    "a cached function": ["from functools import lru_cache", "@lru_cache\ndef answer():\n    return 1"],
    "a dataclass": [
        "from dataclasses import dataclass",
        "@dataclass\nclass Point:\n    x: int = 1",
        "def answer():\n    return Point().x",
    ],
    "from __future__ in the middle": [
        "x = 1",
        "from __future__ import annotations\ndef answer(x: NoSuchType = x) -> Neither:\n    return x",
    ],
    "an attribute set on a function": ["def answer():\n    return answer.value", "answer.value = 1"],
    "an entry set in a table": ["table = {}", "table['x'] = 1", "def answer():\n    return table['x']"],
    "a counter": ["n = 0", "n += 1", "def answer():\n    return n"],
    "a loop that fills": [
        "squares = []\nfor i in range(2):\n    squares = squares + [i]",
        "def answer():\n    return squares[1]",
    ],
    "a lambda": ["answer = lambda: 1"],
    "a walrus in an expression": ["(one := 1)", "def answer():\n    return one"],
    "imports under another name": ["import math as m", "def answer():\n    return int(m.cos(0))"],
    "a dotted import beside a plain one": [
        "import os",
        "import os.path",
        "def answer():\n    return int(os.path.exists(os.sep))",
    ],
    "a star import": ["from math import *", "def answer():\n    return int(cos(0))"],
    "try and except around an import": [
        "try:\n    import no_such_thing as fast\nexcept ImportError:\n    fast = None",
        "def answer():\n    return 1 if fast is None else 0",
    ],
    "%%time above it": ["%%time\ndef answer():\n    return 1"],
    "%time before a value": ["%time one = 1", "def answer():\n    return one"],
    "line magics and shell lines beside it": [
        "%matplotlib inline\n!pip list\nimport math\ndef answer():\n    return 1"
    ],
    "a cell of another language": ["%%bash\nexit 1", "def answer():\n    return 1"],
    "a cell that is not Python": ["def broken(:", "def answer():\n    return 1"],
    "a test of their own that fails": ["def answer():\n    return 1", "assert answer() == 2", "1 / 0"],
    "a statement that fails beside it": ["data = open('/no/such/file').read()", "def answer():\n    return 1"],
    "names of the course taken over": [
        "check = print\nautograder = None\nIn = None",
        "def answer():\n    return 1",
    ],
    "display inside": ["def answer():\n    display('x')\n    return 1"],
    "the main guard": ["if __name__ == '__main__':\n    def answer():\n        return 1"],
    "a global changed inside": [
        "count = 0\ndef bump():\n    global count\n    count += 1",
        "bump()",
        "def answer():\n    return count",
    ],
    "two statements on a line": ["a = 1; b = 2", "def answer():\n    return b - a"],
    "a class with a method that makes itself": [
        "class Node:\n    def child(self):\n        return Node()",
        "def answer():\n    return int(isinstance(Node().child(), Node))",
    ],
    "recursion": ["def answer(n=1):\n    return n and answer(0) + 1"],
    "Windows line ends": ["def answer():\r\n    return 1\r\n"],
    "unpacking": ["zero, (one, *rest) = 0, (1, 2, 3)", "def answer():\n    return one"],
}


@pytest.mark.parametrize("sources", CORPUS.values(), ids=CORPUS.keys())
def test_learners_code_runs_as_it_was_meant(sources):
    learner, _ = run(*sources)
    assert learner.answer() == 1


def test_what_the_answer_does_not_need_is_not_executed():
    learner, report = run("costly = 1 / 0", "print('hello')", "def answer():\n    return 1")
    assert not report["failures"]
    assert not hasattr(learner, "costly")


def test_a_first_draft_that_was_replaced_is_not_executed():
    _, report = run("answer = 1 / 0", "def answer():\n    return 1")
    assert not report["failures"]


def test_a_failing_statement_loses_only_its_own_names_and_is_quoted():
    learner, report = run("limit = 1 / 0\nstep = 1", "def answer():\n    return limit + step")
    (failure,) = report["failures"]
    assert failure["names"] == ["limit"] and failure["kind"] == "ZeroDivisionError"
    assert failure["frames"] == ["cell 1, line 1: limit = 1 / 0"]
    assert learner.step == 1


def test_a_name_nobody_defines_is_missing():
    _, report = run("def other():\n    pass")
    assert report["absent"] == ["answer"]


def test_tracebacks_and_source_inspection_work_on_sliced_code():
    import inspect

    learner, _ = run("# a comment\n\ndef answer():\n    return 1")
    assert inspect.getsource(learner.answer) == "def answer():\n    return 1"
    assert learner.answer.__code__.co_firstlineno == 3


def test_a_quiz_is_read_and_never_executed(tmp_path):
    cells = [Cell("Q = {'a': 1}\nQ = {'a': 2}", "c", 1), Cell("R = [open('x').read()]", "d", 2)]
    assert last_literal(cells, "Q") == {"a": 2}
    with pytest.raises(ValueError):
        last_literal(cells, "R")
    with pytest.raises(KeyError):
        last_literal(cells, "S")
