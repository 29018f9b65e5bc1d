"""What an edit leaves of messages, for tests that pin neither our wording nor our modules."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from agora.core import Characters, Form, Markers, Place, Request, omitted
from agora.formats import Parsed, Rendered, format_named
from agora.formats.anthropic import REMOVED

ORIGIN = (
    Markers(first=1).note(1, "").removeprefix(Markers().note(1, "").removesuffix("]"))
).removesuffix("]")
"""The words of the first marker of an edit that no agent and no tool writes."""


def read(messages: Any, format: str, **options: Any) -> Parsed:
    """Return messages as they are parsed; a token is a character."""
    request = Request(messages=messages, format=format, **options)
    return format_named(format).parse(request, Characters())


def write(
    parsed: Parsed, format: str, lines: Mapping[int, str], noted: Collection[int] = ()
) -> Rendered:
    """Return messages in which each step of `lines` has its line, `action -> result`, or none.

    Those in `noted`, and those that cannot be removed, keep their action.
    """
    forms = {}
    for number, line in lines.items():
        done, _, came = line.partition(" -> ")
        if number in noted or not parsed.trajectory.steps[number - 1].removable:
            forms[number] = Form(number, "note", (Place(None, came),), 0)
        elif line:
            forms[number] = Form(number, "line", (Place(done, came),), 0)
        else:
            forms[number] = omitted(number)
    return format_named(format).render(parsed, forms, Markers())


def marker(first: int, last: int | None = None) -> str:
    """Return the marker of removed steps inside a result."""
    return Markers().run(_removed(first, last))


def signed_marker(first: int, last: int | None = None) -> str:
    """Return the marker of removed steps among the user's words."""
    return Markers().run(_removed(first, last), in_user_text=True)


def note(number: int, text: str = "") -> str:
    """Return the note in place of a result."""
    return Markers().note(number, text)


def is_edited(sent: object) -> bool:
    """Return True if a body, or a value that JSON can hold, has a marker of ours."""
    text = sent.decode("utf-8", "replace") if isinstance(sent, bytes) else json.dumps(sent)
    return ORIGIN in text


def _removed(first: int, last: int | None) -> list[Form]:
    return [omitted(number) for number in range(first, (last or first) + 1)]


__all__ = ["ORIGIN", "REMOVED", "is_edited", "marker", "note", "read", "signed_marker", "write"]
