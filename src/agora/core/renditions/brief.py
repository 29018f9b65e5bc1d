"""A result that is short enough to be told as it is, where it names nothing."""

import re

from agora.core.reading.names import reads_as_orders

_MOST_CHARACTERS = 60
_EMPTY = "(empty)"
_MOST_LINES = 2
_SHORT_CHARACTERS = 200
_RAN = re.compile(
    r"\s*<returncode>-?\d{1,10}</returncode>\s*<output>\n?(.*?)\n?</output>\s*", re.DOTALL
)
"""What a program put around a result: how it went is said apart."""


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


def short_result(text: str) -> str:
    r"""Return a result of one or two lines as it is, each in quotes; nothing of another one.

    >>> short_result("[('has_pet',), ('pets',)]"), short_result("a\nb"), short_result("a\nb\nc")
    ('"[(\'has_pet\',), (\'pets\',)]"', '"a" "b"', '')
    """
    if len(text) > 2 * _SHORT_CHARACTERS:
        return ""
    ran = _RAN.fullmatch(text)
    lines = (ran[1] if ran else text).strip().split("\n")
    said = " ".join([f'"{line}"' for line in lines if line])
    if len(lines) > _MOST_LINES or len(said) > _SHORT_CHARACTERS or not said.isprintable():
        return ""
    return "" if reads_as_orders(said) else said
