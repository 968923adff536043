"""The part of a learner's notebook that an exercise depends on: a backward slice over top-level statements.

Kept, in order, are the statements that bind a needed name; needed are the exercise's names and, transitively, every
global name that a kept statement uses. So a training loop three cells earlier runs only if the answer needs it, and
a plot or a `check(...)` never does.
"""

from __future__ import annotations
import __future__

import ast
import symtable
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from autograder.judge.notebook import Cell, parsed, plain_python

# Methods that change what their object holds, so that calling one says what the object's name stands for.
CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "register", "remove"}
CHANGES |= {"reverse", "setdefault", "sort", "update"}
# Calls that set up the process for everything after them.
SETTINGS = {"setrecursionlimit", "set_default_dtype", "set_grad_enabled"}


@dataclass
class Statement:
    """One top-level statement: where it stands, the global names it binds and those it uses."""

    cell: int
    index: int
    binds: set[str]
    uses: set[str]
    replaces: set[str]  # names it binds anew without looking at what they were
    star: bool = False  # an import of nobody knows what
    setting: bool = False  # of the process, for everything after it
    defines: bool = False  # a `def`: what its body uses is used later, when it is called
    declares: set[str] = field(default_factory=set)  # names declared global in a `def`, bound when it is called

    @property
    def always(self) -> bool:
        """Kept whatever is needed."""
        return self.star or self.setting


@dataclass
class Slice:
    """What to execute for some names: sources by cell, kept statements in order, compile flags."""

    cells: list[dict]
    keep: list[list] = field(default_factory=list)  # [cell, statement, names bound]
    flags: int = 0
    unreadable: list[tuple[Cell, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # needed names that no kept statement is seen to bind
    anything: bool = False  # a star import is kept, which may bind them all the same
    kept_cells: list[Cell] = field(default_factory=list)


def slice_for(cells: Sequence[Cell], needs: Iterable[str]) -> Slice:
    """The statements that `needs` depend on. Cells are in the order in which they were executed."""
    needs = list(needs)
    result = Slice([{"file": cell.file, "source": plain_python(cell.source)} for cell in cells])
    statements: list[Statement] = []
    for number, cell in enumerate(result.cells):
        try:
            tree = parsed(cell["source"])
        except SyntaxError as error:
            why = f"line {error.lineno}: {error.msg}" if error.lineno else str(error)
            result.unreadable.append((cells[number], why))
            cell["source"] = ""
            continue
        for index, node in enumerate(tree.body):
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                result.flags |= _future_flags(node)
            else:
                statements.append(_statement(number, index, node))
    _bind_what_calls_set(statements)
    kept = _kept(statements, needs)
    result.keep = [[s.cell, s.index, sorted(s.binds)] for s in kept]
    bound = set().union(*(s.binds for s in kept)) if kept else set()
    result.missing = [name for name in needs if name not in bound]
    result.anything = any(s.star for s in kept)
    result.kept_cells = [cells[i] for i in sorted({s.cell for s in kept})]
    return result


def _kept(statements: list[Statement], needs: list[str]) -> list[Statement]:
    """Fixed point of: keep what binds a needed name, need what is used, drop what is rebound before any use."""
    dropped: set[int] = set()
    while True:
        needed, kept = set(needs), set()
        grew = True
        while grew:
            grew = False
            for i, statement in enumerate(statements):
                if i in kept or i in dropped or not (statement.always or statement.binds & needed):
                    continue
                kept.add(i)
                needed |= statement.uses
                grew = True
        order = sorted(kept)
        liveness = _Liveness(order, statements, needed)
        dead = {i for i in order if liveness.is_dead(i)}
        if not dead:
            return [statements[i] for i in order]
        dropped |= dead


class _Liveness:
    """Which kept statements bind names that are bound anew before anything can have looked at them."""

    def __init__(self, order: list[int], statements: list[Statement], needed: set[str]) -> None:
        self._order = order
        self._statements = statements
        self._needed = needed
        self._uses_of: dict[str, set[str]] = {}  # name -> what the statements that bind it use
        self._replaced_at: dict[str, int] = {}  # name -> the last statement that replaces it
        self._used: dict[int, set[str]] = {}
        for i in order:
            for name in statements[i].binds:
                self._uses_of.setdefault(name, set()).update(statements[i].uses)
            self._replaced_at |= dict.fromkeys(statements[i].replaces, i)

    def is_dead(self, i: int) -> bool:
        """Whether every needed name that statement i binds is bound anew later with no use in between."""
        statement = self._statements[i]
        wanted = statement.binds & self._needed
        if statement.always or not wanted or wanted - statement.replaces:
            return False
        return all(self._replaced_at[name] > i and self._is_unseen(name, i) for name in wanted)

    def _is_unseen(self, name: str, i: int) -> bool:
        for j in self._order[bisect_right(self._order, i) :]:
            later = self._statements[j]
            if name in self._used_by(j) or (name in later.binds and name not in later.replaces):
                return False
            if name in later.replaces:
                return True
        return False

    def _used_by(self, j: int) -> set[str]:
        """Names a statement uses, and those that the functions it may call use in turn."""
        statement = self._statements[j]
        if statement.defines:
            return statement.uses
        if j not in self._used:
            used, waiting = set(), list(statement.uses)
            while waiting:
                if (name := waiting.pop()) not in used:
                    used.add(name)
                    waiting.extend(self._uses_of.get(name, ()))
            self._used[j] = used
        return self._used[j]


def _statement(cell: int, index: int, node: ast.stmt) -> Statement:
    binds, uses = _names(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.name not in _header_names(node):
            uses.discard(node.name)  # inside its body its own name means the new function
        declares = {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}
        return Statement(cell, index, binds, uses, {node.name} - uses, defines=True, declares=declares)
    replaces = _plain_targets(node) - uses
    return Statement(cell, index, binds, uses, replaces, star=_is_star(node), setting=_is_setting(node))


def _is_star(node: ast.stmt) -> bool:
    imports = [inner for inner in ast.walk(node) if isinstance(inner, ast.ImportFrom)]
    return not isinstance(node, ast.ClassDef) and any(inner.names[0].name == "*" for inner in imports)


def _is_setting(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in SETTINGS


def _bind_what_calls_set(statements: list[Statement]) -> None:
    """A statement outside any `def` that calls a function which declares names global binds those names."""
    declared = {name: s.declares for s in statements if s.declares for name in s.binds}
    for statement in statements:
        if not statement.defines:
            for function in statement.uses & declared.keys():
                statement.binds |= declared[function]


def _header_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that are looked up when the `def` itself executes."""
    header = [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
    return {inner.id for part in header for inner in ast.walk(part) if isinstance(inner, ast.Name)}


def _names(node: ast.stmt) -> tuple[set[str], set[str]]:
    """(bound, used) global names of one top-level statement."""
    defines = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    binds = {_root(target) for target in (_decorated(node) if defines else _targets(node))} - {None}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = symtable.symtable(ast.unparse(ast.Module([node], [])), "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return binds, {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    uses: set[str] = set()
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            binds.add(symbol.get_name())
        if symbol.is_referenced():
            uses.add(symbol.get_name())
    tables = list(table.get_children())
    while tables:
        inner = tables.pop()
        tables.extend(inner.get_children())
        for symbol in inner.get_symbols():
            if symbol.is_global() and (symbol.is_referenced() or symbol.is_declared_global()):
                uses.add(symbol.get_name())
    return binds, uses


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement changes besides plain names: attributes, entries, deleted names, and what a method changes."""
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield inner
            case ast.Name(ctx=ast.Del()):
                yield inner
            case ast.Call(func=ast.Attribute(value=changed, attr=method)) if method in CHANGES:
                yield changed
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[changed, *_]):
                yield changed


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[ast.expr]:
    """What decorating changes: `@double.register` adds to `double`."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(called, ast.Attribute) and called.attr in CHANGES:
            yield called


def _root(target: ast.expr) -> str | None:
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def _plain_targets(node: ast.stmt) -> set[str]:
    """Names a simple statement binds completely."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        # `import a.b` adds to what `a` holds, so it takes nothing away
        return {alias.asname or alias.name for alias in node.names if alias.asname or "." not in alias.name}
    if isinstance(node, ast.ClassDef):
        return {node.name}
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    names: set[str] = set()
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Name):
            names.add(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            targets.extend(target.elts)
        elif isinstance(target, ast.Starred):
            targets.append(target.value)
    return names


def _future_flags(node: ast.ImportFrom) -> int:
    names = {alias.name for alias in node.names} & set(__future__.all_feature_names)
    return sum(getattr(__future__, name).compiler_flag for name in names)


def last_literal(cells: Sequence[Cell], name: str):
    """The value of the last top-level `NAME = literal`, read and never executed.

    Raises KeyError when nothing assigns the name, ValueError when its last assignment is not a literal or something
    changes it afterwards.
    """
    found: ast.expr | None = None
    changed = False
    for cell in cells:
        try:
            body = parsed(plain_python(cell.source)).body
        except SyntaxError:
            continue
        for node in body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if value is not None and name in _plain_targets(node):
                found, changed = value, False
            elif name in _names(node)[0] or (isinstance(node, ast.AugAssign) and _root(node.target) == name):
                changed = True
    if found is None:
        raise KeyError(name)
    if changed:
        raise ValueError(f"{name} is changed after it was assigned")
    return ast.literal_eval(found)
