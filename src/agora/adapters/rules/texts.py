"""What makes a plain text readable as a transcript or as ReAct."""

from agora.adapters.rules.catalogue import Broken, broke
from agora.adapters.rules.shape import kind_of
from agora.core.request import Request

_ROLE_MARKS = ("[SYSTEM]", "[USER]", "[ASSISTANT]")
_REACT_WORDS = ("Thought", "Action", "Observation")


def check_transcript(request: Request, _before: object = None) -> list[Broken]:
    """Return X1 when the text has no role mark, S1 when it is no text."""
    text = request.messages
    if not isinstance(text, str):
        return [_no_text(text)]
    return [] if any(mark in text for mark in _ROLE_MARKS) else [broke("X1", 0)]


def check_react(request: Request, _before: object = None) -> list[Broken]:
    """Return X2 when no line of the text begins with a ReAct word, S1 when it is no text."""
    text = request.messages
    if not isinstance(text, str):
        return [_no_text(text)]
    if text.startswith(_REACT_WORDS) or any(f"\n{word}" in text for word in _REACT_WORDS):
        return []
    return [broke("X2", 0)]


def _no_text(value: object) -> Broken:
    return broke("S1", 0, where="text", found=kind_of(value), needed="a string")
