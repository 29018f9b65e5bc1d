"""What the source of a package must not grow: long functions and modules, questions by class."""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path


def long_functions(package: Path, most_lines: int) -> list[str]:
    """Return the functions of a package with more lines than that, as `file:line name (lines)`."""
    return [
        f"{file.relative_to(package)}:{node.lineno} {node.name} ({lines})"
        for file, tree in _parsed(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > most_lines
    ]


def long_modules(package: Path, most_lines: int) -> list[str]:
    """Return the modules of a package with more lines than that, as `file (lines)`."""
    return [
        f"{file.relative_to(package)} ({lines})"
        for file in sorted(package.rglob("*.py"))
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > most_lines
    ]


def classes_with(package: Path, method: str, argument: str) -> set[str]:
    """Return the names of the classes of a package that have a method with this argument."""
    return {
        node.name
        for _, tree in _parsed(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.FunctionDef)
        and one.name == method
        and argument in [given.arg for given in one.args.args]
    }


def asked_by_class(package: Path, names: Collection[str]) -> list[str]:
    """Return where a package asks whether a value is of one of these classes, as `file:line`.

    Found are `isinstance`, `issubclass`, a comparison with `type(...)` or `__class__`, and a
    class in a `match`.
    """
    return [
        f"{file.relative_to(package)}:{node.lineno}"
        for file, tree in _parsed(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call | ast.Compare | ast.MatchClass)
        and any(name in names for part in _asked(node) for name in _names(part))
    ]


def _asked(node: ast.Call | ast.Compare | ast.MatchClass) -> Iterator[ast.AST]:
    """Yield the parts of an expression that say which classes it asks about."""
    if isinstance(node, ast.MatchClass):
        yield node.cls
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            yield from node.args[1:]
    elif any(_is_type(side) for side in (node.left, *node.comparators)):
        yield node


def _is_type(side: ast.expr) -> bool:
    called = isinstance(side, ast.Call) and isinstance(side.func, ast.Name)
    if called and side.func.id == "type":  # type: ignore[attr-defined]
        return True
    return isinstance(side, ast.Attribute) and side.attr == "__class__"


def _names(part: ast.AST) -> Iterator[str]:
    for node in ast.walk(part):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _parsed(package: Path) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(package.rglob("*.py")):
        yield file, ast.parse(file.read_text(encoding="utf-8"))
