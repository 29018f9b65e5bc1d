"""Draws prose for a reader to judge by the rules of CONTRIBUTING.md.

python docs/draw_prose.py SEED    # 30 docstrings, 30 comments, the names of 10 pages
"""

import ast
import io
import random
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "lab/src")
_MARKS = ("noqa", "type:", "pragma:", "fmt:")


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module, each with its place."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, kinds) and (words := ast.get_docstring(node)):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}\n{words}\n"


def comments(path: Path) -> Iterator[str]:
    """Yield the comments of a module, each with its place; those of several lines as one."""
    place, words, last = 0, "", -2
    for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline):
        if token.type != tokenize.COMMENT or token.string.lstrip("# ").startswith(_MARKS):
            continue
        if token.start[0] != last + 1 and words:
            yield f"{path.relative_to(ROOT)}:{place}\n{words}\n"
        place, words = (
            (place, f"{words} {token.string.lstrip('# ')}")
            if token.start[0] == last + 1
            else (token.start[0], token.string.lstrip("# "))
        )
        last = token.start[0]
    if words:
        yield f"{path.relative_to(ROOT)}:{place}\n{words}\n"


def main() -> None:
    """Print what the seed draws."""
    chance = random.Random(int(sys.argv[1]))
    modules = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    for kind in (docstrings, comments):
        for text in chance.sample([text for path in modules for text in kind(path)], 30):
            sys.stdout.write(text + "\n")
    for page in chance.sample(sorted((ROOT / "docs").rglob("*.md")), 10):
        sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
