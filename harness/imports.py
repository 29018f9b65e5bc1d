"""The import graph of a package, read from its source, and what goes round in it."""

import ast
from collections.abc import Iterator
from pathlib import Path


def graph(package: Path) -> dict[str, frozenset[str]]:
    """Return for each module of a package the modules of it that it names in an import.

    Imports inside functions and for type checkers count as well: two modules
    that need each other only later still cannot be read one after the other.
    """
    root = package.name
    modules = {_name(file, package): file for file in sorted(package.rglob("*.py"))}
    found: dict[str, frozenset[str]] = {}
    for name, file in modules.items():
        wanted: set[str] = set()
        for target in imported(ast.parse(file.read_text(encoding="utf-8"))):
            if target == root or target.startswith(f"{root}."):
                wanted.add(_known(target, modules))
        found[name] = frozenset(wanted - {name})
    return found


def cycles(imports: dict[str, frozenset[str]]) -> list[list[str]]:
    """Return the groups of modules that need each other, faces of packages included.

    A module also needs the face (`__init__`) of every package that it imports
    from, since that runs first, unless it is in that package itself.
    """
    edges = {
        name: {*wanted, *(face for one in wanted for face in _faces(one) if not _in(name, face))}
        for name, wanted in imports.items()
    }
    return [sorted(group) for group in _components(edges) if len(group) > 1]


def from_own_face(package: Path) -> list[str]:
    """Return where a module imports from the face of a package that it is in, as `file: face`.

    The face runs before it, and mostly for its sake: what each of them has when the other asks
    depends on who was first. The face itself may import from below, a face that imports nothing is
    only a name, and nobody imports `__main__`.
    """
    found: list[str] = []
    for file in sorted(package.rglob("*.py")):
        if file.name in ("__init__.py", "__main__.py"):
            continue
        own = _name(file, package)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
                continue
            face = package.parent.joinpath(*node.module.split("."), "__init__.py")
            if own.startswith(f"{node.module}.") and face.exists() and _imports(face):
                found.append(f"{file.relative_to(package)}: {node.module}")
    return found


def _imports(face: Path) -> bool:
    tree = ast.parse(face.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))


def _name(file: Path, package: Path) -> str:
    parts = file.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted name of everything that a file imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _known(target: str, modules: dict[str, Path]) -> str:
    """Return the module that a dotted name is in, or is."""
    while target not in modules:
        target = target.rpartition(".")[0]
    return target


def _faces(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:n]) for n in range(1, len(parts)))


def _in(name: str, face: str) -> bool:
    return name == face or name.startswith(f"{face}.")


def _components(edges: dict[str, set[str]]) -> Iterator[set[str]]:
    """Yield the strongly connected parts (Tarjan's way)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()

    def visit(name: str) -> Iterator[set[str]]:
        index[name] = low[name] = len(index)
        stack.append(name)
        on_stack.add(name)
        for other in sorted(edges.get(name, ())):
            if other not in index:
                yield from visit(other)
                low[name] = min(low[name], low[other])
            elif other in on_stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group: set[str] = set()
            while name not in group:
                group.add(stack.pop())
            on_stack.difference_update(group)
            yield group

    for name in edges:
        if name not in index:
            yield from visit(name)


def named_across(folders: tuple[Path, ...], forbidden: tuple[str, ...]) -> list[str]:
    """Return the imports of forbidden top packages by files below the folders, as `file: name`."""
    return [
        f"{file}: {target}"
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
        for target in imported(ast.parse(file.read_text(encoding="utf-8")))
        if any(_in(target, name) for name in forbidden)
    ]
