"""The documentation as tests see it: pages, their links, their blocks of code."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
NOT_RUN = "<!-- not run:"
"""Begins the line before a block that no test can run, with the reason."""

_LINK = re.compile(r"!?\[[^\[\]]*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, text and first line, and True if tests run it."""

    language: str
    text: str
    line: int
    run: bool


def pages() -> list[Path]:
    """Return every page but the lab's frozen notebook."""
    names = ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG", "CODE_OF_CONDUCT")
    outside = [ROOT / f"{name}.md" for name in (*names, "examples/README", "lab/README")]
    outside += [*sorted((ROOT / "lab" / "docs").glob("*.md")), *sorted((ROOT / "adr").glob("*.md"))]
    return [*(page for page in outside if page.exists()), *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """Return a page's path below the repository."""
    return page.relative_to(ROOT).as_posix()


def links(text: str) -> Iterator[str]:
    """Yield the targets of links and pictures outside of code."""
    yield from _LINK.findall(_without_code(text))


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    return {_slug(heading) for heading in _HEADING.findall(_without_blocks(text))}


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    fenced: list[Block] = []
    language, start, inside = "", 0, list[str]()
    open_fence = False
    before = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```"):
            if open_fence:
                run = not before.startswith(NOT_RUN)
                fenced.append(Block(language, "\n".join(inside) + "\n", start, run))
            else:
                language, start, inside = line[3:].strip(), number + 1, []
            open_fence = not open_fence
        elif open_fence:
            inside.append(line)
        elif line.strip():
            before = line
    return fenced


def navigation() -> list[str]:
    """Return the pages in the site's navigation."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))

    def paths(entries: Any) -> Iterator[str]:
        for entry in entries:
            for value in entry.values():
                if isinstance(value, str):
                    yield value
                else:
                    yield from paths(value)

    return list(paths(settings["project"]["nav"]))


def _without_blocks(text: str) -> str:
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            lines.append(line)
    return "\n".join(lines)


def _without_code(text: str) -> str:
    parts = _without_blocks(text).split("`")
    return "".join(parts[::2]) if len(parts) % 2 else _without_blocks(text)


def _slug(heading: str) -> str:
    plain = "".join(c for c in heading.lower() if c.isalnum() or c in " -_")
    return re.sub(r"[ -]+", "-", plain).strip("-")
