"""Texts made fit for one line: nothing that does not show, and a sign where something is cut."""

import json

CUT = "…"
"""Stands where something is left out."""


def printable(text: str) -> str:
    """Return a text with a space for each character that does not show."""
    if text.isprintable():
        return text
    return "".join([character if character.isprintable() else " " for character in text])


def quoted(text: str) -> str:
    r"""Return a text as a JSON string that shows all of it on one line.

    >>> quoted("a\n\u2028b")
    '"a\\n\\u2028b"'
    """
    said = json.dumps(text, ensure_ascii=False)
    if said.isprintable():
        return said
    shown = [one if one.isprintable() else json.dumps(one)[1:-1] for one in said]
    return "".join(shown)


def cut(line: str, characters: int) -> str:
    """Return the beginning of a line, cut at a space, with the sign behind it.

    >>> cut("not enough seats on flight", 12)
    'not enough …'
    """
    return f"{line[:characters].rpartition(' ')[0] or line[:characters]} {CUT}"
