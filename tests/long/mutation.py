"""Small changes to a program that its tests should see: an operator, a number, a condition, a lost statement.

The operators are those that found something in the literature (Offutt et al. 1996): relational, logical and
arithmetic operators, constants, conditions, and statements without a value. Annotations, decorators,
messages of errors, how an object is shown, and the numbers of a module (`LIMIT = 3`), which a test could
only repeat, are not mutated.
"""

import ast
import contextlib
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.long.changed_code import ChangedFunction

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
NOT_LOOKED_INTO = {"annotation", "returns", "decorator_list", "type_comment", "type_params"}
SHOWING = {"__repr__", "__str__"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A file with one change; `number` tells apart the same change in the same function."""

    lines: range  # of its statement, without what stands indented below it
    on_import: bool  # True outside of functions, and for the defaults of their arguments
    line: int
    scope: str  # function or class
    before: str
    after: str
    number: int
    source: str
    tree: ast.Module
    path: "Path"
    node: ast.AST  # in its place

    @property
    def text(self) -> str:
        """The file with the change, and with all else in its line, as `inspect` expects of what is loaded."""
        *_, node = _nodes(self.tree, self.path)
        is_condition = isinstance(node, ast.If | ast.IfExp)
        before, after = (node.test, self.node.test) if is_condition else (node, self.node)
        text = _replaced(self.source, before, after)
        expected = _with(self.tree, self.path, self.node)
        with contextlib.suppress(SyntaxError):
            if ast.dump(ast.parse(text)) == ast.dump(ast.parse(expected)):
                return text
        return expected

    def function(self, file: str) -> ChangedFunction | None:
        """The function whose code has the change, of this file; None where it is run on import."""
        if self.on_import:
            return None
        within = {id(node) for node in _nodes(self.tree, self.path)}
        functions = [*_functions(self.tree)]
        name, node = next((name, node) for name, node in functions if id(node) in within)
        same = [other for of, other in functions if of == name]
        number = same.index(node)
        return ChangedFunction(file=file, name=name, number=number, text=self.text)

    @property
    def change(self) -> str:
        again = f" ({self.number + 1})" if self.number else ""
        return f"{self.scope}: {self.before} -> {self.after}{again}"


def mutants(text: str) -> Iterator[Mutant]:
    """Every change to a file, in the order of its lines."""
    tree = ast.parse(text)
    seen = Counter[tuple[str, str, str]]()
    for path, node in sorted(_places(tree), key=lambda each: each[1].lineno):
        for other in changes(node):
            key = _scope(tree, path), _shown(node), _shown(other)
            scope, before, after = key
            yield Mutant(
                lines=_lines(tree, path),
                on_import=_is_run_on_import(tree, path),
                line=node.lineno,
                scope=scope,
                before=before,
                after=after,
                number=seen[key],
                source=text,
                tree=tree,
                path=path,
                node=other,
            )
            seen[key] += 1


def changes(node: ast.AST) -> list[ast.AST]:
    """The mutants of a node."""
    match node:
        case ast.Compare(ops=[op]):
            return [_changed(node, ops=[SWAPPED[type(op)]()])]
        case ast.BinOp(op=op) if type(op) in SWAPPED and not _is_text(node):
            return [_changed(node, op=SWAPPED[type(op)]())]
        case ast.BoolOp(op=op):
            return [_changed(node, op=SWAPPED[type(op)]())]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return [operand]
        case ast.Constant(value=bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(value=int(value)):
            return [ast.Constant(value + 1)]
        case ast.Constant(value=float(value)):
            return [ast.Constant(2 * value if value else 1.0)]
        case ast.If(test=test) | ast.IfExp(test=test) if isinstance(
            test, ast.Name | ast.Attribute | ast.Call
        ):
            return [_changed(node, test=ast.UnaryOp(ast.Not(), test))]
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            return [ast.Pass()]
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return [ast.Pass()]
    return []


Path = tuple[tuple[str, int | None], ...]


def _places(node: ast.AST, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Nodes that may be changed, with the way to each."""
    if isinstance(node, ast.FunctionDef) and node.name in SHOWING:
        return
    if isinstance(node, ast.Raise) or _is_not_mutated(node):
        if isinstance(node, ast.Raise):
            yield path, node
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield path, node
    for name, value in ast.iter_fields(node):
        if name in NOT_LOOKED_INTO:
            continue
        if isinstance(value, ast.AST):
            yield from _places(value, (*path, (name, None)))
        elif isinstance(value, list):
            for number, each in enumerate(value):
                if isinstance(each, ast.AST):
                    yield from _places(each, (*path, (name, number)))


def _is_not_mutated(node: ast.AST) -> bool:
    """Types, what only type checkers see, texts, and the numbers of a module."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(map(_is_upper_case, targets)):
            return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
        return ast.unparse(node.value).startswith(("Literal[", "Callable["))
    return isinstance(node, ast.JoinedStr | ast.ImportFrom | ast.Import)


def _is_upper_case(target: ast.expr) -> bool:
    """True for `LIMIT`, or for several such names."""
    if isinstance(target, ast.Tuple):
        return all(map(_is_upper_case, target.elts))
    return isinstance(target, ast.Name) and target.id.isupper()


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _changed(node: ast.AST, **fields: Any) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _nodes(tree: ast.Module, path: Path) -> Iterator[Any]:
    """From the module to the node."""
    node: Any = tree
    yield node
    for name, number in path:
        node = getattr(node, name) if number is None else getattr(node, name)[number]
        yield node


def _scope(tree: ast.Module, path: Path) -> str:
    named = (node for node in _nodes(tree, path) if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return ".".join(node.name for node in named) or "module"


def _lines(tree: ast.Module, path: Path) -> range:
    *_, statement = (node for node in _nodes(tree, path) if isinstance(node, ast.stmt))
    body = getattr(statement, "body", None)
    return range(statement.lineno, body[0].lineno if body else (statement.end_lineno or statement.lineno) + 1)


def _is_run_on_import(tree: ast.Module, path: Path) -> bool:
    within = (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in _nodes(tree, path))
    return not any(inside and name == "body" for inside, (name, _) in zip(within, path, strict=False))


def _with(tree: ast.Module, path: Path, other: ast.AST) -> str:
    changed = copy.deepcopy(tree)
    *_, node = _nodes(changed, path[:-1])
    name, number = path[-1]
    if number is None:
        setattr(node, name, other)
    else:
        getattr(node, name)[number] = other
    return ast.unparse(ast.fix_missing_locations(changed))


def _replaced(text: str, before: Any, after: ast.AST) -> str:
    """`text` with `after` instead of `before`, which keeps its number of lines."""
    lines = text.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: before.lineno - 1])) + before.col_offset
    end = sum(map(len, lines[: before.end_lineno - 1])) + before.end_col_offset
    more, code = before.end_lineno - before.lineno, ast.unparse(after)
    code = f"({code}{chr(10) * more})" if isinstance(after, ast.expr) else code + "\\\n" * more
    content = b"".join(lines)
    return (content[:begin] + code.encode() + content[end:]).decode()


def _functions(node: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Functions and methods that are in no other function, in the order of the file, with their names."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{scope}{each.name}", each
        else:
            inner = f"{scope}{each.name}." if isinstance(each, ast.ClassDef) else scope
            yield from _functions(each, inner)


def _shown(node: ast.AST) -> str:
    """The first line of a node: of an `if` its condition."""
    return ast.unparse(node).splitlines()[0]
