"""Headings and tables of a report, as Markdown."""

from collections.abc import Iterable, Sequence


def heading(text: str, level: int = 2) -> str:
    """Return a heading; level 1 is the report's own title.

    >>> heading("Audit")
    '## Audit'
    """
    return f"{'#' * level} {text}"


def bold(text: str) -> str:
    """Return text in bold; nothing where there is none."""
    return f"**{text}**" if text else ""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a table; a line break inside a cell stays one.

    >>> table(["method", "n"], [["a|b", "1\n2"]])
    '| method | n |\n|---|---|\n| a\\|b | 1<br>2 |'
    """
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines)


def document(parts: Iterable[str]) -> str:
    """Return headings, paragraphs and tables as one document."""
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "<br>")
