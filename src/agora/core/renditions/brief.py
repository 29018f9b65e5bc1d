"""A result that is short enough to be told as it is, where it names nothing."""

from agora.core.reading.names import reads_as_orders

_MOST_CHARACTERS = 60
_EMPTY = "(empty)"


def brief(text: str) -> str:
    """Return a short result as it is, in quotes unless it is a sign; nothing of a longer one.

    >>> brief("The light is on."), brief("[]"), brief(" \\n"), brief("x" * 99)
    ('"The light is on."', '[]', '(empty)', '')
    """
    text = text.strip()
    if not text:
        return _EMPTY
    if len(text) > _MOST_CHARACTERS or not text.isprintable() or reads_as_orders(text):
        return ""
    return text if not any(map(str.isalpha, text)) else f'"{text}"'
