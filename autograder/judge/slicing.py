"""The part of a learner's notebook that an exercise depends on: a backward slice over top-level statements.

Kept, in order, are the statements that bind a needed name; needed are the exercise's names and, transitively, every
global name that a kept statement uses. So a training loop three cells earlier runs only if the answer needs it, and
a plot or a `check(...)` never does.
"""

from __future__ import annotations
import __future__

import ast
import symtable
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from autograder.judge.notebook import Cell, plain_python


@dataclass
class Statement:
    """One top-level statement: where it stands, the global names it binds and those it uses."""

    cell: int
    index: int
    binds: set[str]
    uses: set[str]
    replaces: set[str]  # names it binds anew without looking at what they were
    star: bool = False


@dataclass
class Slice:
    """What to execute for some names: sources by cell, kept statements in order, compile flags."""

    cells: list[dict]
    keep: list[list] = field(default_factory=list)  # [cell, statement, names bound]
    flags: int = 0
    unreadable: list[tuple[Cell, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    kept_cells: list[Cell] = field(default_factory=list)


def slice_for(cells: Sequence[Cell], needs: Iterable[str]) -> Slice:
    """The statements that `needs` depend on. Cells are in the order in which they were executed."""
    needs = list(needs)
    result = Slice([{"file": cell.file, "source": plain_python(cell.source)} for cell in cells])
    statements: list[Statement] = []
    for number, cell in enumerate(result.cells):
        try:
            tree = ast.parse(cell["source"])
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            result.unreadable.append((cells[number], _why_unreadable(error)))
            cell["source"] = ""
            continue
        for index, node in enumerate(tree.body):
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                result.flags |= _future_flags(node)
            elif not isinstance(node, ast.Expr) or _assigns_inside(node):
                statements.append(_statement(number, index, node))
    kept = _kept(statements, needs)
    result.keep = [[s.cell, s.index, sorted(s.binds)] for s in kept]
    bound = set().union(*(s.binds for s in kept)) if kept else set()
    if not any(s.star for s in kept):
        result.missing = [name for name in needs if name not in bound]
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
                if i in kept or i in dropped or not (statement.star or statement.binds & needed):
                    continue
                kept.add(i)
                needed |= statement.uses
                grew = True
        order = sorted(kept)
        dead = {i for i in order if _is_dead(i, order, statements, needed)}
        if not dead:
            return [statements[i] for i in order]
        dropped |= dead


def _is_dead(i: int, order: list[int], statements: list[Statement], needed: set[str]) -> bool:
    """Whether every needed name the statement binds is bound anew later with no use in between."""
    statement = statements[i]
    wanted = statement.binds & needed
    if statement.star or not wanted or wanted - statement.replaces:
        return False
    for name in wanted:
        for j in order:
            if j <= i:
                continue
            later = statements[j]
            if name in later.uses or (name in later.binds and name not in later.replaces):
                return False
            if name in later.replaces:
                break
        else:
            return False
    return True


def _statement(cell: int, index: int, node: ast.stmt) -> Statement:
    binds, uses = _names(node)
    star = isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.name not in _header_names(node):
            uses.discard(node.name)  # inside its body its own name means the new function
        return Statement(cell, index, binds, uses, {node.name} - uses)
    return Statement(cell, index, binds, uses, _plain_targets(node) - uses, star)


def _assigns_inside(node: ast.Expr) -> bool:
    return any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node))


def _header_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that are looked up when the `def` itself executes."""
    header = [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
    return {inner.id for part in header for inner in ast.walk(part) if isinstance(inner, ast.Name)}


def _names(node: ast.stmt) -> tuple[set[str], set[str]]:
    """(bound, used) global names of one top-level statement."""
    binds = {_root(target) for target in _targets(node)} - {None}
    try:
        table = symtable.symtable(ast.unparse(ast.fix_missing_locations(ast.Module([node], []))), "cell", "exec")
    except (SyntaxError, ValueError, RecursionError):
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


def _targets(node: ast.AST) -> list[ast.expr]:
    """Assignment targets anywhere in the statement that are attributes or subscripts, and deleted names."""
    found: list[ast.expr] = []
    for inner in ast.walk(node):
        if (isinstance(inner, ast.Attribute | ast.Subscript) and isinstance(inner.ctx, ast.Store | ast.Del)) or (
            isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Del)
        ):
            found.append(inner)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    return found


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


def _why_unreadable(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return str(error) or type(error).__name__


def last_literal(cells: Sequence[Cell], name: str):
    """The value of the last top-level `NAME = literal`, read and never executed.

    Raises KeyError when nothing assigns the name, ValueError when its last assignment is not a literal.
    """
    found: ast.expr | None = None
    for cell in cells:
        try:
            body = ast.parse(plain_python(cell.source)).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in body:
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                found = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                found = node.value or found
    if found is None:
        raise KeyError(name)
    return ast.literal_eval(found)
