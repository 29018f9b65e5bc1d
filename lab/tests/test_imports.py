"""What the lab takes from the product: its public names, so that its inside can be rebuilt."""

import ast
from collections.abc import Iterator
from pathlib import Path

import agora

SOURCE = Path(__file__).parents[1] / "src" / "agora_lab"
EXCEPTIONS = (
    # The evaluation model and what only it uses.
    "judge/",
    "recorded.py",
    "cli/fidelity",
    # Logs of people's own agents, for labels.
    "cli/label.py",
    "label/cases.py",
    # It bills recordings as `agora replay` does: logs, the simulated cache, the pages' shell.
    "scoreboard/",
)
"""What may import more, until the core that it measures is rebuilt."""


def inner_imports(path: Path) -> Iterator[str]:
    """Yield what a file imports from inside the product."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "agora":
                yield from (f"agora.{n.name}" for n in node.names if n.name not in agora.__all__)
            elif node.module.startswith("agora.") and node.module != "agora.paper":
                yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith("agora."))


FOUND = {
    path.relative_to(SOURCE).as_posix(): sorted(set(inner_imports(path)))
    for path in sorted(SOURCE.rglob("*.py"))
}


def test_the_lab_imports_only_public_names_of_the_product() -> None:
    inner = {name: found for name, found in FOUND.items() if found}

    assert {name: found for name, found in inner.items() if not name.startswith(EXCEPTIONS)} == {}


def test_every_exception_is_still_needed() -> None:
    used = {one for one in EXCEPTIONS for name in FOUND if name.startswith(one) and FOUND[name]}

    assert used == set(EXCEPTIONS)
