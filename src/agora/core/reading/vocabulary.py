"""The words by which texts are read, from one data file."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def _tables() -> dict[str, Any]:
    file = resources.files("agora.core.reading").joinpath("vocabulary.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def word_set(table: str, name: str) -> frozenset[str]:
    """Return a list of words as a set.

    >>> "def" in word_set("names", "defines")
    True
    """
    return frozenset(word_list(table, name))


def word_list(table: str, name: str) -> tuple[str, ...]:
    """Return a list of words in its order; where an entry has spaces it is written as a list."""
    found = _tables()[table][name]
    return tuple(found.split() if isinstance(found, str) else found)


def bare_name(name: str) -> str:
    """Return a name as lists of names have it: in lower case without signs.

    >>> bare_name("is_error"), bare_name("TodoWrite")
    ('iserror', 'todowrite')
    """
    return "".join(filter(str.isalnum, name)).lower()
