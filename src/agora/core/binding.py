"""Which models bind thinking to the prefix: they check each block against all that precedes it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Literal

from agora.core.model_names import bare_name, belongs

FailedCheck = Literal["error", "drop", "record"]
FIRST_BOUND = (5, 1)
"""The first version of Claude that binds; one that is not listed binds from here on."""
_MOST_VERSION_DIGITS = 2
"""A longer number in a name is a date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What a model does with thinking that stands behind other messages than it was made behind."""

    model: str
    """The name it is found by; empty for a model that is not listed."""
    failed_check: FailedCheck
    """`error`: a 400. `drop`: the block and all later ones are left out without an error.
    `record`: nothing."""
    since: str = ""
    source: str = ""


_UNLISTED = Binding(
    model="", failed_check="error", source="not listed: newer Claude models are taken to bind"
)


@lru_cache(maxsize=1_024)
def binding_of(model: str | None) -> Binding | None:
    """Return how a model binds thinking, or None if it does not.

    A Claude model that is not listed binds if its version is newer than those known not to, or if
    its name tells no version.

    >>> binding_of("us.anthropic.claude-opus-5-5-20261001-v1:0").failed_check
    'drop'
    >>> binding_of("claude-opus-6").failed_check
    'error'
    >>> binding_of("claude-sonnet-4-5-20250929") is None and binding_of("gpt-5") is None
    True
    """
    name = bare_name(model or "")
    known = shipped_bindings()
    found = [one for one in known if belongs(name, one)]
    if found:
        return known[max(found, key=len)]
    if not name.startswith("claude"):
        return None
    version = _version(name)
    return _UNLISTED if version is None or version >= FIRST_BOUND else None


def binds(model: str | None) -> bool:
    """Tell whether an edit costs this model the thinking behind it.

    >>> binds("claude-fable-5-1"), binds("claude-mythos-5-1"), binds(None)
    (True, False, False)
    """
    binding = binding_of(model)
    return binding is not None and binding.failed_check != "record"


@cache
def shipped_bindings() -> Mapping[str, Binding]:
    """Return the bindings we know, by model; the data file is read on first use."""
    text = resources.files("agora.core").joinpath("bindings.toml").read_text(encoding="utf-8")
    return {model: Binding(model=model, **table) for model, table in tomllib.loads(text).items()}


def _version(name: str) -> tuple[int, int] | None:
    """Return major and minor of a Claude model's name, whichever way round it is written.

    >>> _version("claude-opus-4-5-20251101"), _version("claude-3-7-sonnet"), _version("claude-opus")
    ((4, 5), (3, 7), None)
    """
    parts = name.split("-")
    for at, part in enumerate(parts):
        if part.isdecimal() and len(part) <= _MOST_VERSION_DIGITS:
            minor = parts[at + 1] if at + 1 < len(parts) else ""
            follows = minor.isdecimal() and len(minor) <= _MOST_VERSION_DIGITS
            return int(part), int(minor) if follows else 0
    return None
