"""Nothing that has the shape of a key: what is written about a request is looked over for it."""

import re
from functools import lru_cache

REDACTED = "[redacted]"
_KEYS = re.compile(
    r"(?:sk|pk|rk|gsk|xai|xox[a-z]|gh[a-z]|hf|AIza|AKIA|ASIA|ya29|eyJ|glpat|r8|pplx|nvapi)"
    r"[-_.A-Za-z0-9]{8,}"
)
"""How the keys of providers and forges begin. One class repeated: it cannot backtrack."""
_RUNS = re.compile(r"[A-Za-z0-9_+/=-]{24,}")


def without_keys(text: str) -> str:
    """Return the text without anything that begins as keys do; other long words stay."""
    return _KEYS.sub(REDACTED, text)


def redacted(text: str) -> str:
    """Return the text without anything that has the shape of a key.

    >>> redacted("Bearer sk-proj-abcdefgh12345678 was refused")
    'Bearer [redacted] was refused'
    >>> redacted("a_long_name_of_a_function_in_words")
    'a_long_name_of_a_function_in_words'
    """
    return _RUNS.sub(_run, without_keys(text))


_MODEL_KEYS = re.compile(r"(?<![A-Za-z0-9])" + _KEYS.pattern)
_MODEL_PARTS = re.compile(r"[-_./:@+ ]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MODEL_PART_MOST = 15
"""Longer parts of a model's name are words; keys are longer and have digits in them too."""


def model_name(name: str | None) -> str:
    """Return a model's name if it reads as one, the mark of what is redacted otherwise.

    Names have dates and sizes in them, so that as a whole many would pass for keys. Part by part
    they do not: the parts of a name are short, or words.

    >>> model_name("claude-sonnet-4-5-20250929"), model_name("ft:gpt-4o-2024-08-06:org::AbC12")
    ('claude-sonnet-4-5-20250929', 'ft:gpt-4o-2024-08-06:org::AbC12')
    >>> model_name("Zq7Kp2Xw9Lm4Rt6Yv1Bn3Cd5"), model_name("sk-ant-api03-AbCdEfGh")
    ('[redacted]', '[redacted]')
    """
    if not name:
        return ""
    # Names of any length are not kept.
    return _model_name(name) if len(name) <= 128 else REDACTED


@lru_cache(maxsize=1_024)
def _model_name(name: str) -> str:
    plain = name.isascii() and name.isprintable()
    if not plain or _MODEL_KEYS.search(name) or _UUID.search(name):
        return REDACTED
    for part in _MODEL_PARTS.split(name):
        if len(part) > _MODEL_PART_MOST and not part.isalpha():
            return REDACTED
    return name


def _run(match: re.Match[str]) -> str:
    run = match.group()
    mixed = any(c.isdigit() for c in run) and any(c.isalpha() for c in run)
    return REDACTED if mixed else run
