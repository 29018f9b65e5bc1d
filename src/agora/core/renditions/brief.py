"""A result that is short enough to be told as it is, where it names nothing."""

from agora.core.reading.names import reads_as_orders

_MOST_CHARACTERS = 60
_EMPTY = "(empty)"


def empty(text: str) -> str:
    """Return what says that a result has nothing in it, or nothing if it has something.

    >>> empty(" "), empty("[]"), empty("none of them")
    ('(empty)', '[]', '')
    """
    text = text.strip()
    return text if text in ("[]", "{}") else "" if text else _EMPTY


def brief(text: str) -> str:
    """Return a short result as it is, in quotes unless it is a sign; nothing of a longer one.

    >>> brief("The light is on."), brief("[]"), brief("x" * 99)
    ('"The light is on."', '[]', '')
    """
    text = text.strip()
    if not text:
        return _EMPTY
    if len(text) > _MOST_CHARACTERS or not text.isprintable() or reads_as_orders(text):
        return ""
    return f'"{text}"' if any(map(str.isalpha, text)) else text
