"""The part of a learner's notebook that an exercise depends on: a backward slice over top-level statements.

Kept, in order, are the statements that bind a needed name; needed are the exercise's names and, transitively, every
global name that a kept statement uses. To change an object is to bind its name: through an attribute or an entry, by a
method called for its effect, by an own function that fills what it is given, or under another name. So a training loop
three cells earlier runs only if the answer needs it, and a plot or a `check(...)` never does.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import symtable
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from autograder.judge.notebook import Cell, parsed, plain_python

# Methods that change what their object holds, so that calling one says what the object's name stands for.
CHANGES = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "register", "remove"}
CHANGES |= {"manual_seed", "reverse", "seed", "setdefault", "sort", "update"}
# Functions that change what their first argument holds, besides torch's own, whose names end in `_`.
CHANGES_FIRST = {"delattr", "heapify", "heappop", "heappush", "insort", "next", "setattr", "shuffle"}
# Likewise where their result is not used: numpy's `copyto(a, b)`, `add.at(a, i, b)`, operator's `setitem(a, i, b)`.
FILLS_FIRST = {"at", "copyto", "delitem", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "setitem"}
TYPES = {"bytearray", "dict", "list", "set"}  # whose methods may be called as `dict.update(a, b)`
MOST_ROUNDS, MOST_STATEMENTS = 20, 1000  # in which what is rebound unseen is looked for: nobody's notebook has more
MAX_LITERAL = 1000  # parts of a quiz's answer, of which none has more than some forty
# Calls that set up the process for everything after them. The number of threads is the judge's to set.
SETTINGS = {"setrecursionlimit", "set_default_device", "set_default_dtype", "set_float32_matmul_precision"}
SETTINGS |= {"set_grad_enabled", "use_deterministic_algorithms"}

# Functions whose result is made of their arguments' parts.
PASSES_ON = {"enumerate", "iter", "list", "next", "reversed", "sorted", "tuple", "zip"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

# A function called for its effect, and the names that reach it, by place or by keyword.
Call = tuple[str, list[tuple[int | str | None, set[str]]]]


@dataclass
class Statement:
    """One top-level statement: where it stands, the global names it binds and those it uses."""

    cell: int
    index: int
    node: ast.stmt
    binds: set[str]
    uses: set[str]
    replaces: set[str]  # names it binds anew without looking at what they were
    changes: set[str]  # names whose objects it changes; a `def`, when it is called
    calls: list[Call]  # likewise
    star: bool = False  # it binds nobody knows what
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
    _bind_what_is_changed(statements)
    kept = _kept(statements, needs)
    result.keep = [[s.cell, s.index, sorted(s.binds)] for s in kept]
    bound = set().union(*(s.binds for s in kept)) if kept else set()
    result.missing = [name for name in needs if name not in bound]
    result.anything = any(s.star for s in kept)
    result.kept_cells = [cells[i] for i in sorted({s.cell for s in kept})]
    return result


def _kept(statements: list[Statement], needs: list[str]) -> list[Statement]:
    """Fixed point of: keep what binds a needed name, need what is used, drop what is rebound before any use."""
    binders: dict[str, list[int]] = {}
    for i, statement in enumerate(statements):
        for name in statement.binds:
            binders.setdefault(name, []).append(i)
    always = [i for i, statement in enumerate(statements) if statement.always]
    dropped: set[int] = set()
    for rounds in count(1):
        kept, needed = set(always), set()
        waiting = [*needs, *(name for i in always for name in statements[i].uses)]
        while waiting:
            if (name := waiting.pop()) in needed:
                continue
            needed.add(name)
            for i in binders.get(name, ()):
                if i not in kept and i not in dropped:
                    kept.add(i)
                    waiting.extend(statements[i].uses)
        order = sorted(kept)
        dead: set[int] = set()
        if rounds < MOST_ROUNDS and len(statements) <= MOST_STATEMENTS:
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
        self._used_for: dict[str, set[str]] = {}  # name -> names bound by statements that use it
        self._replaced_at: dict[str, int] = {}  # name -> the last statement that replaces it
        self._unseen: dict[str, set[int]] = {}  # name -> statements that bind it for nobody
        for i in order:
            for name in statements[i].uses:
                self._used_for.setdefault(name, set()).update(statements[i].binds)
            self._replaced_at |= dict.fromkeys(statements[i].replaces, i)

    def is_dead(self, i: int) -> bool:
        """Whether every needed name that statement i binds is bound anew later with no use in between."""
        statement = self._statements[i]
        wanted = statement.binds & self._needed
        if statement.always or not wanted or wanted - statement.replaces:
            return False
        return all(self._replaced_at[name] > i and i in self._unseen_of(name) for name in wanted)

    def _unseen_of(self, name: str) -> set[int]:
        """Statements that bind a name, and the next that has to do with it binds it anew."""
        if name not in self._unseen:
            found, through, anew = self._unseen.setdefault(name, set()), self._reaching(name), False
            for j in reversed(self._order):
                statement = self._statements[j]
                if anew and name in statement.binds:
                    found.add(j)
                used = name in statement.uses if statement.defines else not through.isdisjoint(statement.uses)
                if used or (name in statement.binds and name not in statement.replaces):
                    anew = False
                elif name in statement.replaces:
                    anew = True
        return self._unseen[name]

    def _reaching(self, name: str) -> set[str]:
        """The name, and all whose use may be a use of it: functions that use it, and what uses those in turn."""
        found, waiting = set(), [name]
        while waiting:
            if (one := waiting.pop()) not in found:
                found.add(one)
                waiting.extend(self._used_for.get(one, ()))
        return found


def _statement(cell: int, index: int, node: ast.stmt) -> Statement:
    binds, uses = _names(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.name not in _header_names(node):
            uses.discard(node.name)  # inside its body its own name means the new function
        declares = {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}
        body, replaces = ast.Module(node.body, []), {node.name} - uses
        changes = _with_sources(_changed(body), _sources([body]))
        return Statement(
            cell, index, node, binds, uses, replaces, changes, _calls(body), defines=True, declares=declares
        )
    body = node
    if isinstance(node, ast.ClassDef):  # its methods are not called yet
        now = [inner for inner in node.body if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)]
        body = ast.Module(_header(node).body + now, [])
    changes, calls, replaces = _changed(body), _calls(body), _plain_targets(node) - uses
    star, setting = _is_star(node), _is_setting(node)
    return Statement(cell, index, node, binds, uses, replaces, changes, calls, star=star, setting=setting)


def _is_star(node: ast.stmt) -> bool:
    """Whether it binds names that cannot be read off it: a star import, `exec(...)`, `globals()[...] = ...`."""
    if isinstance(node, Definition):
        return False
    for inner in ast.walk(node):
        match inner:
            case ast.ImportFrom(names=[ast.alias(name="*")]) | ast.Call(func=ast.Name(id="exec")):
                return True
            case ast.Subscript(value=ast.Call(func=ast.Name(id="globals")), ctx=ast.Store()):
                return True
            case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Name(id="globals")), attr="update")):
                return True
    return False


def _is_setting(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in SETTINGS


def _bind_what_is_changed(statements: list[Statement]) -> None:
    """Add to what statements bind the names whose objects they change, also through functions and other names."""
    functions: dict[str, list[Statement]] = {}
    for statement in statements:
        if statement.defines:
            functions.setdefault(statement.node.name, []).append(statement)
    _follow_calls(functions)
    imported, defined = _names_of_code(statements)
    sources = _sources(s.node for s in statements if not isinstance(s.node, Definition))
    sources = {name: parts - imported - defined for name, parts in sources.items()}
    for statement in statements:
        if statement.defines:
            header = _header(statement.node)
            changes = _changed(header) | _changed_by(_calls(header), functions)
        else:
            changes = statement.changes | _changed_by(statement.calls, functions)
            statement.binds |= _declared_by(statement.uses, functions)
        statement.binds |= _with_sources(changes - imported, sources)


def _follow_calls(functions: dict[str, list[Statement]]) -> None:
    """Let functions do what those do that they call."""
    waiting = [function for same_name in functions.values() for function in same_name]
    callers: dict[str, list[Statement]] = {}
    for function in waiting:
        for name in function.uses & functions.keys():
            callers.setdefault(name, []).append(function)
    while waiting:
        function = waiting.pop()
        size = len(function.declares) + len(function.changes)
        function.declares |= _declared_by(function.uses, functions)
        function.changes |= _changed_by(function.calls, functions)
        if size < len(function.declares) + len(function.changes):
            waiting.extend(callers.get(function.node.name, ()))


def _declared_by(uses: set[str], functions: dict[str, list[Statement]]) -> set[str]:
    """Names declared global in functions that may be called."""
    return {name for used in uses & functions.keys() for function in functions[used] for name in function.declares}


def _changed_by(calls: list[Call], functions: dict[str, list[Statement]]) -> set[str]:
    """Global names and arguments whose objects calls of own functions change."""
    changed: set[str] = set()
    for name, arguments in calls:
        for function in functions.get(name, ()):
            changed |= function.changes & function.uses
            parameters = dict(enumerate([*function.node.args.posonlyargs, *function.node.args.args]))
            for place, names in arguments:
                if (parameters[place].arg if place in parameters else place) in function.changes:
                    changed |= names
    return changed


def _names_of_code(statements: list[Statement]) -> tuple[set[str], set[str]]:
    """Names that imports bind, and those of functions and classes."""
    imported: set[str] = set()
    for statement in statements:
        for inner in ast.walk(statement.node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                imported |= {alias.asname or alias.name.split(".")[0] for alias in inner.names}
    defined = {s.node.name for s in statements if s.defines or isinstance(s.node, ast.ClassDef)}
    return imported, defined


def _sources(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
    """Name -> names of what it may be, or be a part of: `row = table[0]`, `for layer in model.layers`, `a = b = []`."""
    sources: dict[str, set[str]] = {}
    for inner in (inner for node in nodes for inner in ast.walk(node)):
        match inner:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.For(target=target, iter=value):
                targets = [target]
            case _:
                continue
        names = [_plain_names([target]) for target in targets]
        for some in names:
            others = set(_roots(value)).union(*(other for other in names if other is not some))
            for name in some:
                sources.setdefault(name, set()).update(others)
    return sources


def _with_sources(names: set[str], sources: dict[str, set[str]]) -> set[str]:
    """Names, and whatever their objects may be a part of."""
    waiting, seen = list(names), set()
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen.add(name)
            waiting.extend(sources.get(name, ()))
    return seen


def _header(node: Definition) -> ast.Module:
    """Decorators as calls: `@register` and `@double.register` are made for what they change."""
    calls = [d if isinstance(d, ast.Call) else ast.Call(d, [], []) for d in node.decorator_list]
    return ast.Module([ast.Expr(call) for call in calls], [])


def _header_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that are looked up when the `def` itself executes."""
    header = [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
    return {inner.id for part in header for inner in ast.walk(part) if isinstance(inner, ast.Name)}


def _names(node: ast.stmt) -> tuple[set[str], set[str]]:
    """(bound, used) global names of one top-level statement."""
    defines = isinstance(node, Definition)
    binds = {name for target in _targets(_header(node) if defines else node) for name in _roots(target)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = symtable.symtable(ast.unparse(ast.Module([node], [])), "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return binds | ({node.name} if defines else set()), {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
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
        in_class = inner.get_type() == "class"  # where `scale = scale` reads the global
        for symbol in inner.get_symbols():
            if symbol.is_declared_global() or (symbol.is_referenced() and (symbol.is_global() or in_class)):
                uses.add(symbol.get_name())
    if uses & {"eval", "exec", "globals"}:
        uses |= _names_in_texts(node)
    return binds, uses


def _names_in_texts(node: ast.stmt) -> set[str]:
    """Names in those of its strings that are Python: `eval("helper() + 1")`, `globals()["helper"]`."""
    names: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            with contextlib.suppress(SyntaxError):
                names |= {name.id for name in ast.walk(parsed(inner.value)) if isinstance(name, ast.Name)}
    return names


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement plainly changes: attributes, entries, deleted names, what known methods and functions change."""
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield inner
            case ast.Name(ctx=ast.Del()):
                yield inner
            case ast.NamedExpr(target=target) | ast.AugAssign(target=target):
                yield target
            case ast.Expr(ast.Call(func=ast.Attribute(attr=name) | ast.Name(name), args=[changed, *_])) if (
                name in FILLS_FIRST
            ):
                yield changed
            case ast.Call(func=ast.Attribute(value=ast.Name(kind), attr=method), args=[changed, *_]) if (
                kind in TYPES and method in CHANGES
            ):
                yield changed
            case ast.Call(func=ast.Attribute(value=changed, attr=method)) if method in CHANGES and not _is_new(changed):
                yield changed
            case ast.Call(func=ast.Name("map"), args=[ast.Attribute(value=changed, attr=method), *_]) if (
                method in CHANGES and not _is_new(changed)
            ):
                yield changed
            case ast.keyword(arg="out", value=changed):
                yield changed
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[changed, *_]):
                if name in CHANGES_FIRST or name.endswith("_"):
                    yield changed


def _is_new(target: ast.expr) -> bool:
    """Whether a call may have made it: `torch.Generator().manual_seed(0)` changes nothing in torch."""
    return any(isinstance(inner, ast.Call) for inner in ast.walk(target))


def _changed(node: ast.AST) -> set[str]:
    """Names whose objects a statement changes, or seems to: a call without a use of its result is made to change."""
    changed = {name for target in _targets(node) for name in _roots(target)}
    for inner in ast.walk(node):
        match inner:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=target))):
                changed.update(_roots(target))
            case ast.Call(func=ast.Attribute(value=target, attr=method)) if method in CHANGES or method.endswith("_"):
                changed.update(_roots(target))
    return changed


def _calls(node: ast.AST) -> list[Call]:
    """Functions called by name without a use of their results."""
    calls: list[Call] = []
    for inner in ast.walk(node):
        match inner:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords)):
                reached = [*enumerate(arguments), *((keyword.arg, keyword.value) for keyword in keywords)]
                calls.append((name, [(place, set(_roots(argument))) for place, argument in reached]))
    return calls


def _roots(reached: ast.expr) -> Iterator[str]:
    """Names whose objects an expression may be, or be a part of: `a` of `a.b[0]`, `a.b()`, `next(a)` and `(a, 1)`."""
    parts: list[ast.expr] = []
    while not isinstance(reached, ast.Name):
        match reached:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                reached = inner
                continue
            case ast.Call(func=ast.Attribute(value=inner), args=arguments, keywords=keywords):
                parts += [*arguments, *(keyword.value for keyword in keywords), inner]
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in PASSES_ON:
                parts += arguments
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                parts += elements
        if not parts:
            return
        reached = parts.pop()
    yield reached.id
    for part in parts:
        yield from _roots(part)


def _plain_targets(node: ast.stmt) -> set[str]:
    """Names a simple statement binds completely."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        # `import a.b` adds to what `a` holds, so it takes nothing away
        return {alias.asname or alias.name for alias in node.names if alias.asname or "." not in alias.name}
    if isinstance(node, ast.ClassDef):
        return {node.name}
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    return _plain_names(targets)


def _plain_names(targets: list[ast.expr]) -> set[str]:
    """Names that are targets themselves, or parts of an unpacking."""
    names: set[str] = set()
    targets = list(targets)
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
            elif name in _names(node)[0]:
                changed = True
    if found is None:
        raise KeyError(name)
    if changed:
        raise ValueError(f"{name} is changed after it was assigned")
    if sum(1 for _ in ast.walk(found)) > MAX_LITERAL:
        raise ValueError(f"{name} has too many parts")
    return ast.literal_eval(found)
