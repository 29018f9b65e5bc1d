"""The beginning of a conversation, from the bytes of any of its calls."""

import json
import re

from agora.rewrite import texts_in

_ROLE = rb'"role"\s*:\s*$'
_ROLE_FIRST = re.compile(rb'\{\s*(?:"type"\s*:\s*"message"\s*,\s*)?' + _ROLE)
_CACHE = rb'"cache_control"\s*:\s*\{[^{}]*\}'
_MARKER = re.compile(rb",\s*" + _CACHE + rb"|" + _CACHE + rb"\s*,\s*")
_BETWEEN = re.compile(r"[\s,]*")
_LOOK_BACK = 512
_WINDOW = 8 << 10
"""The most characters that identify a conversation."""
_decoder = json.JSONDecoder()


def opening(body: bytes, field: str) -> bytes:
    """Return the user's text before the model's first answer, or an empty text.

    Only the beginning of a long text is read, because this runs for every call. Cache marks are
    left out, since they move from message to message.

    >>> opening(b'{"messages": [{"role": "user", "content": "hi"}]}', "messages")
    b'hi'
    """
    found = re.search(rb'"%b"\s*:\s*(?=["\[])' % field.encode(), body)
    if found is None:
        return b""
    start = found.end()
    if body[start : start + 1] == b"[":
        start = _first_user(body, start)
    window = body[start : start + _WINDOW + _LOOK_BACK]
    if b"cache_control" in window:
        window = _MARKER.sub(b"", window)
    # Cut to the same length with and without marks, so that both are cut or neither is.
    said = _said_first(window[:_WINDOW].decode("utf-8", "ignore"))
    return "\0".join(said).encode("utf-8", "surrogatepass")


def _first_user(body: bytes, start: int) -> int:
    """Return where the first message of the user begins, or else the first of all.

    A long system text before it is skipped without being read.
    """
    at = body.find(b'"user"', start)
    while at >= 0:
        found = _ROLE_FIRST.search(body, max(start, at - _LOOK_BACK), at)
        if found is not None:
            return found.start()
        at = body.find(b'"user"', at + 1)
    # The role comes after the content: read messages from the first one on.
    return start + 1


def _said_first(text: str) -> list[str]:
    """Return the users' texts in messages that may be cut off."""
    said: list[str] = []
    at = _BETWEEN.match(text).end()  # type: ignore[union-attr]
    while at < len(text) and text[at] in '{"':
        try:
            message, end = _decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            # The text is cut off: its beginning is enough.
            return [*said, text[at:]]
        role = message.get("role") if isinstance(message, dict) else "user"
        if role == "user":
            said += texts_in(message)
        elif role not in ("system", "developer"):
            break
        at = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return said
