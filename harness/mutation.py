"""Small changes to a source that tests should notice: a place, and what stands there instead."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_CALLED = {"any": "all", "all": "any", "min": "max", "max": "min"}
_UNTOUCHED = (ast.JoinedStr, ast.Import, ast.ImportFrom)
"""Places inside these are not where they seem to be, or break every test alike."""


class Mutant(NamedTuple):
    """One change to one source."""

    kind: str
    line: int
    start: int
    """Where it begins, in bytes of the source."""
    end: int
    now: str
    """What stands there instead."""

    def of(self, source: str) -> str:
        """Return the source with the change."""
        text = source.encode()
        return (text[: self.start] + self.now.encode() + text[self.end :]).decode()

    def was(self, source: str) -> str:
        """Return what stood there."""
        return source.encode()[self.start : self.end].decode()


def mutants_of(source: str) -> list[Mutant]:
    """Return every small change that this module knows of, in the order of the source.

    >>> [(one.kind, one.now) for one in mutants_of("def f(x):\\n    return x > 1")]
    [('return', 'return None'), ('comparison', '(x >= 1)'), ('constant', '2')]
    """
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    for node, boolean in _places(ast.parse(source), boolean=False):
        # What is asked by an `if` is a place of its own: its negation says the opposite.
        asked = node.test if isinstance(node, ast.If | ast.While | ast.IfExp) else None
        at = asked or node
        begin = starts[at.lineno - 1] + at.col_offset
        end = starts[(at.end_lineno or 1) - 1] + (at.end_col_offset or 0)
        changes = [("condition", _negated(asked))] if asked else _changes(node, boolean=boolean)
        found += [Mutant(kind, at.lineno, begin, end, now) for kind, now in changes]
    return sorted(found, key=lambda one: (one.start, -one.end, one.kind))


def _places(node: ast.AST, *, boolean: bool) -> Iterator[tuple[ast.stmt | ast.expr, bool]]:
    """Yield statements and expressions that run, and whether their function returns a boolean."""
    if isinstance(node, _UNTOUCHED):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        boolean = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
    if isinstance(node, ast.stmt | ast.expr):
        yield node, boolean
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "pattern"):
            continue
        for inner in field if isinstance(field, list) else [field]:
            if isinstance(inner, ast.AST) and not _is_documentation(inner):
                yield from _places(inner, boolean=boolean)


def _is_documentation(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and (isinstance(node.value.value, str) or node.value.value is Ellipsis)
    )


def _changes(node: ast.stmt | ast.expr, *, boolean: bool) -> Iterator[tuple[str, str]]:
    """Yield the kind of each change to a node, and what it would be then."""
    match node:
        case ast.Compare(ops=[op, *others]):
            changed = ast.Compare(node.left, [_COMPARED[type(op)](), *others], node.comparators)
            yield "comparison", _inside(changed)
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and/or", _inside(ast.BoolOp(other, node.values))
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            yield "arithmetic", _inside(ast.BinOp(node.left, _COMPUTED[type(op)](), node.right))
        case ast.UnaryOp(op=ast.Not()):
            yield "negation", _inside(node.operand)
        case ast.Name(id=name) if name in _CALLED:
            yield "any/all", _CALLED[name]
        case ast.Constant(value=value):
            yield from _constants(value)
        case ast.Return(value=ast.expr() as value) if boolean:
            yield "return", f"return {_negated(value)}"
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield "return", "return None"
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield "removed", "pass"


def _inside(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def _negated(node: ast.expr) -> str:
    return f"(not {_inside(node)})"


def _constants(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, bool):
        yield "constant", str(not value)
    elif isinstance(value, int | float):
        yield "constant", repr(value + 1)
    elif isinstance(value, str) and value:
        yield "constant", repr(f"XX{value}")
