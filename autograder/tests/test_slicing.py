"""Learners' code as it is really written: what the slice keeps, drops and runs."""

from __future__ import annotations

import decimal
import math
import subprocess
import sys
import types
from types import SimpleNamespace

import pytest
import torch

from autograder.course.live import Recorder
from autograder.judge import Cell
from autograder.judge.bench import load
from autograder.judge.slicing import last_literal, slice_for


@pytest.fixture(autouse=True)
def nothing_learners_code_sets_stays(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setenv("LEVEL", "0")
    monkeypatch.setattr(math, "one", 0, raising=False)
    precision = torch.get_float32_matmul_precision()
    with decimal.localcontext():
        yield
    torch.set_float32_matmul_precision(precision)


def run(*sources: str, needs: str = "answer"):
    """Slice the cells for one name and execute what is kept; (the module, the report)."""
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
    # decorators and compiled functions
    "a decorator with arguments": [
        "def plus(n):\n    def wrap(f):\n        return lambda: f() + n\n    return wrap",
        "@plus(1)\ndef answer():\n    return 0",
    ],
    "a decorator that is a class": [
        "class Twice:\n    def __init__(self, f):\n        self.f = f\n"
        "    def __call__(self):\n        return 2 * self.f()",
        "@Twice\ndef answer():\n    return 0.5",
    ],
    "a decorator applied afterwards": [
        "def plus_one(f):\n    return lambda: f() + 1",
        "def answer():\n    return 0",
        "answer = plus_one(answer)",
    ],
    "a decorator that fills a registry": [
        "steps = {}\ndef register(f):\n    steps[f.__name__] = f\n    return f",
        "@register\ndef one():\n    return 1",
        "def answer():\n    return steps['one']()",
    ],
    "a decorator that adds a method to a class": [
        "def add_to(cls):\n    def wrap(f):\n        setattr(cls, f.__name__, f)\n    return wrap",
        "class Model:\n    pass",
        "@add_to(Model)\ndef one(self):\n    return 1",
        "def answer():\n    return Model().one()",
    ],
    "a recursive function that remembers": [
        "import functools",
        "@functools.cache\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(30)",
        "def answer():\n    return fib(2)",
    ],
    "a context manager": [
        "from contextlib import contextmanager",
        "@contextmanager\ndef opened():\n    yield 1",
        "def answer():\n    with opened() as one:\n        return one",
    ],
    "inference mode as a decorator": [
        "import torch",
        "@torch.inference_mode()\ndef answer():\n    return int(torch.is_inference_mode_enabled())",
    ],
    "a compiled function": [
        "import torch",
        "@torch.compile(dynamic=False)\ndef step(x):\n    return x + 1",
        "def answer():\n    return int(hasattr(step, '_torchdynamo_orig_callable'))",
    ],
    "compiled later under its own name": [
        "import torch\ndef step(x):\n    return x + 1",
        "step = torch.compile(step)",
        "def answer():\n    return int(hasattr(step, '_torchdynamo_orig_callable'))",
    ],
    "a model compiled in place": [
        "import torch\nmodel = torch.nn.Linear(1, 1)",
        "model.compile()",
        "def answer():\n    return int(model._compiled_call_impl is not None)",
    ],
    "a function frozen with partial": [
        "from functools import partial\ndef power(n, x):\n    return x**n",
        "answer = partial(power, 2, 1)",
    ],
    # classes
    "a dataclass with defaults from globals": [
        "from dataclasses import dataclass, field\nwidth = 1",
        "@dataclass\nclass Point:\n    x: int = width\n    rest: list = field(default_factory=lambda: [width])",
        "def answer():\n    return Point().rest[0]",
    ],
    "a named tuple": [
        "from typing import NamedTuple",
        "class Point(NamedTuple):\n    x: int = 1",
        "def answer():\n    return Point().x",
    ],
    "an enum": [
        "import enum",
        "class Kind(enum.Enum):\n    ONE = enum.auto()",
        "def answer():\n    return Kind.ONE.value",
    ],
    "a class built on one of an earlier cell": [
        "class Base:\n    def one(self):\n        return 1",
        "class Child(Base):\n    pass",
        "def answer():\n    return Child().one()",
    ],
    "a class that continues itself": [
        "class Model:\n    def one(self):\n        return 1",
        "class Model(Model):\n    def two(self):\n        return 2",
        "def answer():\n    return Model().two() - Model().one()",
    ],
    "a torch module": [
        "import torch\nfrom torch import nn",
        "class Twice(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.two = nn.Parameter(torch.tensor(2.0))\n"
        "    def forward(self, x):\n        return self.two * x",
        "twice = Twice()",
        "def answer():\n    return int(twice(torch.tensor(0.5)))",
    ],
    "weights set in place": [
        "import torch\nlayer = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)",
        "layer.weight.fill_(1)",
        "torch.nn.init.zeros_(layer.weight)\nwith torch.no_grad():\n    layer.weight.add_(1)",
        "def answer():\n    return int(layer(torch.ones(1)))",
    ],
    "a model put into eval mode": [
        "import torch\nmodel = torch.nn.Dropout(0.99)",
        "model.eval()",
        "def answer():\n    return int(model(torch.ones(1)))",
    ],
    "a property added afterwards": [
        "class Model:\n    pass",
        "Model.one = property(lambda self: 1)",
        "def answer():\n    return Model().one",
    ],
    "a class attribute named after the global it is taken from": [
        "scale = 1",
        "class Config:\n    scale = scale",
        "def answer():\n    return Config.scale",
    ],
    "a class whose body computes": [
        "width = 2",
        "class Config:\n    half = width // 2\n    table = {}\n    for i in range(2):\n        table[i] = i * half",
        "def answer():\n    return Config.table[1]",
    ],
    "an object that is called": ["class Answer:\n    def __call__(self):\n        return 1", "answer = Answer()"],
    "a pickled object of an own class": [
        "import pickle",
        "class Point:\n    x = 1",
        "def answer():\n    return pickle.loads(pickle.dumps(Point())).x",
    ],
    "every layer of a model changed in a loop": [
        "class Layer:\n    scale = 0\nlayers = [Layer(), Layer()]",
        "for layer in layers:\n    layer.scale = 1",
        "def answer():\n    return layers[1].scale",
    ],
    "every layer of a model changed by an own function": [
        "class Layer:\n    scale = 0\nlayers = [Layer(), Layer()]",
        "def quantize(layers, *, to):\n    for i, layer in enumerate(layers):\n        layer.scale = to",
        "quantize(layers=layers, to=1)",
        "def answer():\n    return layers[1].scale",
    ],
    "a model trained": [
        "import torch\nmodel = torch.nn.Linear(1, 1, bias=False)",
        "opt = torch.optim.SGD(model.parameters(), lr=0.5)",
        "for step in range(50):\n    opt.zero_grad()\n    loss = (model(torch.ones(1)) - 1).square().sum()\n"
        "    loss.backward()\n    opt.step()",
        "def answer():\n    return round(model(torch.ones(1)).item())",
    ],
    # global state
    "a global set through two functions": [
        "def init():\n    global one\n    one = 1\ndef setup():\n    init()",
        "setup()",
        "def answer():\n    return one",
    ],
    "a global filled on first use": [
        "table = None",
        "def load():\n    global table\n    if table is None:\n        table = [1]\n    return table",
        "def answer():\n    return load()[0]",
    ],
    "a function that fills what it is given": [
        "table = {}",
        "def fill(into):\n    into['x'] = 1",
        "fill(table)",
        "def answer():\n    return table['x']",
    ],
    "a function that fills a global table": [
        "table = {}\ndef put(key, value):\n    table[key] = value",
        "for key in 'ax':\n    put(key, 1)",
        "def answer():\n    return table['x']",
    ],
    "a list changed under its other name": ["a = b = []", "a.append(1)", "def answer():\n    return b[0]"],
    "a global set by name": ["globals()['one'] = 1", "def answer():\n    return one"],
    "code in a text, executed": ["exec('one = 1')", "def answer():\n    return one"],
    "code in a text, inside": ["def helper():\n    return 0", "def answer():\n    return eval('helper() + 1')"],
    "a constant changed by a later demonstration": [
        "BLOCK = 16\ndef answer():\n    return BLOCK",
        "BLOCK = 1\nprint(answer())",
    ],
    "a value computed with a first version": [
        "def size():\n    return 1",
        "one = size()",
        "def size():\n    return 2",
        "def answer():\n    return one",
    ],
    "a default taken before the global changed": ["n = 1", "def answer(k=n):\n    return k", "n = 5"],
    "a seed": [
        "import torch\ntorch.manual_seed(7)\nfirst = torch.rand(1)",
        "torch.manual_seed(7)",
        "second = torch.rand(1)",
        "def answer():\n    return int(first == second)",
    ],
    "a setting of the process": [
        "import torch\ntorch.set_float32_matmul_precision('medium')",
        "import torch as t",
        "def answer():\n    return int(t.get_float32_matmul_precision() == 'medium')",
    ],
    "a setting through a call": [
        "import decimal\ndecimal.getcontext().prec = 1",
        "def answer():\n    return decimal.getcontext().prec",
    ],
    "an environment variable": [
        "import os\nos.environ['LEVEL'] = '1'",
        "def answer():\n    return int(os.environ['LEVEL'])",
    ],
    "a module patched between two imports of it": [
        "import math",
        "math.one = 1",
        "import math\ndef answer():\n    return math.one",
    ],
    # tables filled by functions of libraries and of types
    "an array copied into": [
        "import numpy as np\nones = np.zeros(2)",
        "np.copyto(ones, [1.0, 1.0])",
        "def answer():\n    return int(ones[1])",
    ],
    "an array added to at some places": [
        "import numpy as np\nones = np.zeros(2)\nnp.add.at(ones, [1], 1.0)",
        "def answer():\n    return int(ones[1])",
    ],
    "an array filled in the middle of a loop": [
        "import numpy as np\nrows = [np.zeros((2, 2)) for _ in range(2)]",
        "for row in rows:\n    np.fill_diagonal(row, 1)",
        "def answer():\n    return int(rows[1][1, 1])",
    ],
    "an array filled by an own function": [
        "import numpy as np\nones = np.zeros(2)\ndef fill(into):\n    np.put(into, [1], 1.0)",
        "fill(ones)",
        "def answer():\n    return int(ones[1])",
    ],
    "a tensor that a sum is written to": [
        "import torch\nzero, one = torch.zeros(2, 1)",
        "torch.exp(zero, out=one)",
        "def answer():\n    return int(one)",
    ],
    "an entry set by operator": [
        "import operator\ntable = {}",
        "operator.setitem(table, 'x', 1)",
        "def answer():\n    return table['x']",
    ],
    "a table updated through its type": [
        "table, rest = {}, [0]",
        "dict.update(table, {'x': 1})\nlist.append(rest, 1)",
        "def answer():\n    return table['x'] * rest[1]",
    ],
    "an entry set through its type": [
        "table = {}\ndict.__setitem__(table, 'x', 1)",
        "def answer():\n    return table['x']",
    ],
    "a list filled by map": [
        "numbers = []",
        "list(map(numbers.append, [0, 1]))",
        "def answer():\n    return numbers[1]",
    ],
    # functions within functions
    "a closure with nonlocal": [
        "def counter():\n    n = 0\n    def bump():\n        nonlocal n\n        n += 1\n"
        "        return n\n    return bump",
        "answer = counter()",
    ],
    "lambdas that keep their loop variable": ["get = [lambda i=i: i for i in range(2)]", "answer = get[1]"],
    "a table of functions": ["def one():\n    return 1\nOPS = {'one': one}", "def answer():\n    return OPS['one']()"],
    "a generator function": ["def count():\n    yield from (1, 2)", "def answer():\n    return next(count())"],
    "an iterator already advanced": [
        "numbers = iter([0, 1])",
        "next(numbers)",
        "def answer():\n    return next(numbers)",
    ],
    "two functions that call each other across cells": [
        "def even(n):\n    return n == 0 or odd(n - 1)",
        "def odd(n):\n    return n > 0 and even(n - 1)",
        "def answer():\n    return int(even(4))",
    ],
    "an itertools pipeline": [
        "from itertools import accumulate, chain, islice\nimport operator",
        "parts = chain([1], [1, 1])\nproducts = accumulate(parts, operator.mul)",
        "def answer():\n    return sum(islice(products, 1))",
    ],
    "an import inside": ["def answer():\n    from math import cos\n    return int(cos(0))"],
    "async functions": [
        "import asyncio\nasync def one():\n    await asyncio.sleep(0)\n    return 1",
        "def answer():\n    return asyncio.run(one())",
    ],
    "await at the top level": [
        "async def fetch():\n    return 1",
        "one = await fetch()",
        "def answer():\n    return one",
    ],
    # statements that bind
    "a walrus in a comprehension": ["halves = [last := n / 2 for n in range(3)]", "def answer():\n    return last"],
    "comprehension variables stay inside": [
        "x = 1",
        "squares = [x * x for x in range(9)]",
        "def answer():\n    return x",
    ],
    "match": ["match (1, 2):\n    case (one, _):\n        pass", "def answer():\n    return one"],
    "a while loop": ["n = 8\nwhile n > 1:\n    n //= 2", "def answer():\n    return n"],
    "a with block": [
        "import io\nwith io.StringIO('1') as file:\n    one = int(file.read())",
        "def answer():\n    return one",
    ],
    "a value from an except branch": [
        "try:\n    one = int('x')\nexcept ValueError as error:\n    one = len(error.args)",
        "def answer():\n    return one",
    ],
    "definitions that depend on the machine": [
        "import sys\nfast = sys.version_info < (3,)",
        "if fast:\n    def answer():\n        return 0\nelse:\n    def answer():\n        return 1",
    ],
    "a swap": ["a, b = 1, 0", "a, b = b, a", "def answer():\n    return b"],
    "one value for two names": ["a = b = 1", "def answer():\n    return a * b"],
    "a declared name": ["one: int", "one = 1", "def answer():\n    return one"],
    "a list grown by +=": ["t = [0]\nalso = t\nt += [1]", "def answer():\n    return also[1]"],
    "a name deleted after use": ["parts = [1]\none = parts[0]\ndel parts", "def answer():\n    return one"],
    "type checking imports": [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from no_such_thing import Tensor",
        "Pair = tuple[int, int]",
        "def answer(x: 'Tensor' = 1, y: Pair = None) -> 'Neither':\n    return x",
    ],
    "from __future__ in the middle, and a class that names itself": [
        "def early(x: int):\n    return x",
        "from __future__ import annotations\nfrom dataclasses import dataclass",
        "@dataclass\nclass Node:\n    child: Node | None = None",
        "def answer():\n    return early(int(Node().child is None))",
    ],
    "a star import that takes a name over": [
        "def gcd(a, b):\n    return 0",
        "from math import *",
        "def answer():\n    return gcd(2, 3)",
    ],
    "a name that takes a star import over": ["from math import *", "pi = 1", "def answer():\n    return pi"],
    "a star import of a file that is not there": ["from my_helpers import *", "def answer():\n    return 1"],
    "__all__ and a docstring": [
        '"""My solution."""\n__all__ = [\'answer\']',
        'def answer():\n    """One."""\n    return 1',
    ],
    "Greek names": ["σ, Δt = 1, 0", "def answer():\n    return σ + Δt"],
    "tabs and a comment at the end": ["def answer():\n\treturn 1  # done"],
    # names taken over
    "a built-in name used for a value and given back": ["sum = 5", "del sum", "def answer():\n    return sum([1])"],
    "a built-in replaced by an own version": ["def max(a, b):\n    return 1", "def answer():\n    return max(5, 6)"],
    "an import alias shadowed after use": [
        "import math as m",
        "one = int(m.cos(0))\nm = None",
        "def answer():\n    return one",
    ],
    "own helpers named like the course's": [
        "def check(x):\n    return x\ndef display(x):\n    return x\nhint = check",
        "def answer():\n    return check(display(hint(1)))",
    ],
    "a stub left above": ["def answer():\n    raise NotImplementedError", "def answer():\n    return 1"],
    # cells that Jupyter knows
    "%timeit, a question and a shell line": [
        "def answer():\n    return 1\n%timeit -n1 -r1 answer()\nanswer?\n?print\n!true"
    ],
    "%%capture above values": ["%%capture out\none = 1", "def answer():\n    return one"],
    "%%timeit binds nothing": ["one = 1", "%%timeit -n1 -r1\none = 2", "def answer():\n    return one"],
    "magics inside a function": [
        "def answer():\n    !true\n    %time one = 1\n    %timeit -n1 -r1 one\n    return one"
    ],
    "a value from a shell line that is not needed": ["files = !ls\nn = len(files)", "def answer():\n    return 1"],
    "a cell that is not Python beside its neighbour": [
        "one = 1",
        "for x in range(3)\n    print(x)",
        "def answer():\n    return one",
    ],
}


@pytest.mark.parametrize("sources", CORPUS.values(), ids=CORPUS.keys())
def test_learners_code_runs_as_it_was_meant(sources):
    learner, _ = run(*sources)
    assert learner.answer() == 1


# what a learner wrote beside the answer: each would fail if it were executed
NOT_NEEDED = {
    "a slow value": ["costly = 1 / 0", "more = costly + 1", "def answer():\n    return 1"],
    "a first draft": ["answer = 1 / 0", "def answer():\n    return 1"],
    "a first draft and what only it used": [
        "table = 1 / 0",
        "def answer():\n    return table",
        "def answer():\n    return 1",
    ],
    "a value replaced before anybody looked": ["n = 1 / 0", "n = 1", "def answer():\n    return n"],
    "a question to the reader": ["name = input('your name? ')", "def answer():\n    return 1"],
    "plots": [
        "import no_such_plots as plt\nfig, ax = plt.subplots()",
        "def answer():\n    return 1",
        "ax.plot([answer()])\nax.set_title('speed')\nplt.show()\nfig",
    ],
    "a training loop": [
        "model = 1 / 0\nfor step in range(1000):\n    loss = model(step)\n    loss.backward()",
        "def answer(model=None):\n    return 1",
    ],
    "tests at the end": [
        "def answer():\n    return 1",
        "for n in range(3):\n    assert answer() == 2",
        "import unittest\nclass TestAnswer(unittest.TestCase):\n    x = 1 / 0\nunittest.main(argv=[''], exit=False)",
    ],
    "a sweep over the answer": [
        "LENGTHS = [1, 2]\ndef answer():\n    return LENGTHS[0]",
        "results = {}\nfor n in LENGTHS:\n    results[n] = answer() / 0",
        "times = [answer() / 0 for n in LENGTHS]\ntimes.sort()\nprint(times, answer() / 0)",
    ],
    "a demonstration by an own function": [
        "LENGTHS = [1, 2]\ndef answer():\n    return LENGTHS[0]",
        "def show(values, get):\n    rows = []\n    for value in values:\n        rows.append(get() / 0)",
        "show(LENGTHS, answer)",
    ],
    "a plot by an own function": [
        "LENGTHS = [1, 2]\ndef answer():\n    return LENGTHS[0]",
        "def draw(ax, values):\n    ax.plot(values)\n    ax.set_title('speed')",
        "ax = 1 / 0\ndraw(ax, LENGTHS)",
    ],
    "a demonstration of what the answer uses, by functions of libraries": [
        "import numpy as np\nimport torch\nimport no_such_plots as plt\nfrom no_such_course import draw",
        "LENGTHS = [1, 2]\nx = torch.ones(2)\ndef answer():\n    return LENGTHS[0] * int(x[0])",
        "plt.plot(LENGTHS, [n / 0 for n in LENGTHS])\ndraw.bars(LENGTHS, x / 0, 1 / 0)",
        "for n in LENGTHS:\n    torch.mul(x, 1 / 0)",
        "np.testing.assert_allclose(LENGTHS, 1 / 0)\nnp.save(LENGTHS, 1 / 0)",
        "print(LENGTHS, 1 / 0)\nlist(map(print, LENGTHS, 1 / 0))\nlist(map(answer, LENGTHS))",
    ],
    "a main function that takes what the answer uses": [
        "LENGTHS = [1, 2]\ndef answer():\n    return LENGTHS[0]",
        "def main(lengths):\n    for n in lengths:\n        print(n / 0)",
        "main(LENGTHS)",
    ],
    "a decorated demonstration": [
        "import torch\nmodel = 1 / 0",
        "@torch.no_grad()\ndef sweep():\n    return model",
        "def answer():\n    return int(torch.ones(1))",
    ],
    "a measurement of the answer": [
        "def answer():\n    return 1",
        "def time_calls(work):\n    times = [work() / 0 for _ in range(3)]\n    times.sort()\n    return times",
        "times = time_calls(answer)\ntimes.sort()\ntime_calls(answer)",
    ],
    "a demonstration with a seed of its own": [
        "import torch\ndef answer():\n    return int(torch.ones(1))",
        "torch.set_num_threads(1 / 0)",
        "noise = torch.rand(1 / 0, generator=torch.Generator().manual_seed(0))\nnoise.clamp_(0)",
    ],
    "the end of the session": ["def answer():\n    return 1", "raise SystemExit", "quit()"],
    "parameters and local names named like globals": [
        "data = 1 / 0\nhelper = 1 / 0",
        "def answer(data=1):\n    def helper():\n        return data\n    return helper()",
    ],
    "attributes and keywords named like globals": [
        "import math\nfrom functools import partial",
        "cos = 1 / 0\nbase = 1 / 0",
        "def answer():\n    return partial(int, base=10)(str(int(math.cos(0))))",
    ],
    "attributes of a class of its own": [
        "tokens = [1]",
        "class Log:\n    last = 1 / 0\n    def add(self, tokens):\n        tokens.append(0)",
        "def answer():\n    return tokens[-1]",
    ],
}


@pytest.mark.parametrize("sources", NOT_NEEDED.values(), ids=NOT_NEEDED.keys())
def test_what_the_answer_does_not_need_is_not_executed(sources):
    learner, report = run(*sources)
    assert not report["failures"]
    assert learner.answer() == 1


# what does not work in a notebook run from the top -> what calling answer() raises
BROKEN = {
    "a built-in name used for a value": (TypeError, ["sum = 0", "def answer():\n    return sum([1])"]),
    "a loop variable that takes a function's name": (
        TypeError,
        ["def size():\n    return 1", "for size in range(2):\n    pass", "def answer():\n    return size()"],
    ),
    "an import alias used for a number": (
        AttributeError,
        ["import math as F", "def answer():\n    return F.cos(0)", "F = 0.5"],
    ),
    "a helper deleted": (
        NameError,
        ["def helper():\n    return 1", "def answer():\n    return helper()", "del helper"],
    ),
    "the stub run again below the answer": (
        NotImplementedError,
        ["def answer():\n    return 1", "def answer():\n    raise NotImplementedError"],
    ),
    "a helper in a cell that is not Python": (
        NameError,
        ["def helper()\n    return 1", "def answer():\n    return helper()"],
    ),
    "a value that somebody must type": (NameError, ["n = int(input('n? '))", "def answer():\n    return n"]),
    "a file that is not there": (NameError, ["import my_helpers", "def answer():\n    return my_helpers.one"]),
    "a helper that only %%timeit saw": (
        NameError,
        ["%%timeit -n1 -r1\ndef helper():\n    return 1", "def answer():\n    return helper()"],
    ),
    "a value used above the cell that makes it": (
        NameError,
        ["half = base // 2", "base = 2", "def answer():\n    return half"],
    ),
}


@pytest.mark.parametrize(("error", "sources"), BROKEN.values(), ids=BROKEN.keys())
def test_what_fails_in_a_notebook_run_from_the_top_fails(error, sources):
    learner, _ = run(*sources)
    with pytest.raises(error):
        learner.answer()


# (cell, what it said when it was run), in the order of running
EXECUTIONS = {
    "corrected and run again": [("a", "def answer():\n    return 0"), ("a", "def answer():\n    return 1")],
    "a helper corrected after the answer had run": [
        ("a", "def helper():\n    return 0"),
        ("b", "def answer():\n    return helper()"),
        ("a", "def helper():\n    return 1"),
    ],
    "a helper renamed, its old name gone": [
        ("a", "def help_me():\n    return 0"),
        ("b", "def answer():\n    return helper()"),
        ("a", "def helper():\n    return 1"),
    ],
    "from the bottom up": [("b", "def answer():\n    return helper()"), ("a", "def helper():\n    return 1")],
    "a counter's cell run three times": [
        ("a", "n = 0"),
        ("b", "n += 1"),
        ("b", "n += 1"),
        ("b", "n += 1"),
        ("c", "def answer():\n    return n"),
    ],
    "everything run twice": [
        ("a", "t = []"),
        ("b", "t.append(1)\ndef answer():\n    return len(t)"),
        ("a", "t = []"),
        ("b", "t.append(1)\ndef answer():\n    return len(t)"),
    ],
    "the setting of an experiment put back": [
        ("a", "SIZE = 1"),
        ("b", "SIZE = 8"),
        ("c", "def answer():\n    return SIZE"),
        ("a", "SIZE = 1"),
    ],
}


@pytest.mark.parametrize("executions", EXECUTIONS.values(), ids=EXECUTIONS.keys())
def test_of_cells_run_again_and_in_any_order_the_latest_execution_counts(executions):
    nothing = SimpleNamespace(register=lambda *_: None, input_hist_raw=[])
    shell = SimpleNamespace(history_manager=nothing, events=nothing, execution_count=1)
    recorder = Recorder(shell)
    for cell_id, source in executions:
        recorder._record(SimpleNamespace(raw_cell=source, cell_id=cell_id))
        shell.execution_count += 1
    learner, _ = run(*(cell["source"] for cell in recorder.cells()))
    assert learner.answer() == 1


def test_an_answer_in_a_cell_that_is_not_python_is_missing_and_the_cell_is_named():
    _, report = run("def answer(:\n    return 1")
    ((cell, why),) = report["unreadable"]
    assert report["absent"] == ["answer"] and cell.number == 1 and why.startswith("line 1: ")


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


def test_cells_that_stand_twice_do_not_cost_time_by_their_cube():
    chain = "\n".join(f"x{i} = x{i - 1}" for i in range(1, 2000))
    program = (
        "from autograder.judge import Cell\nfrom autograder.judge.slicing import slice_for\n"
        f"cell = {'x0 = 1' + chr(10) + chain!r}\n"
        "slice_for([Cell(cell, 'a', 1), Cell(cell, 'b', 2), Cell('def f(): return x1999', 'c', 3)], ['f'])"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=200)  # an hour by the cube
