"""Texts made fit for one line: nothing that does not show, and a sign where something is cut."""

CUT = "…"
"""Stands where something is left out."""


def printable(text: str) -> str:
    """Return a text with a space for each character that does not show."""
    if text.isprintable():
        return text
    return "".join([character if character.isprintable() else " " for character in text])


def cut(line: str, characters: int) -> str:
    """Return the beginning of a line, cut at a space, with the sign behind it.

    >>> cut("not enough seats on flight", 12)
    'not enough …'
    """
    return f"{line[:characters].rpartition(' ')[0] or line[:characters]} {CUT}"
