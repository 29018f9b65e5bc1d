"""Which models bind reasoning to the prefix: they check it against all that precedes it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Literal

from agora.core.model_names import bare_name, belongs

FailedCheck = Literal["error", "drop", "record"]
_MOST_VERSION_DIGITS = 2
"""A longer number in a name is a date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A model's treatment of reasoning after a change of the messages before it."""

    model: str
    """The name it is found by; empty for a model that is not listed."""
    failed_check: FailedCheck
    """`error`: a 400. `drop`: the block and all later ones are left out without an error.
    `record`: nothing."""
    since: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class _Family:
    """The models of one maker that are not listed."""

    first_version: tuple[int, int]
    """The first version that binds."""
    without_version: bool
    """True if a model without a version in its name is assumed to bind."""
    binding: Binding


_FAMILIES = {
    "claude": _Family(
        (5, 1),
        True,
        Binding(model="", failed_check="error", source="newer Claude models are taken to bind"),
    ),
    "gpt": _Family(
        (6, 0),
        False,
        Binding(model="", failed_check="drop", source="newer GPT models are taken to bind"),
    ),
}


@lru_cache(maxsize=1_024)
def binding_of(model: str | None) -> Binding | None:
    """Return how a model binds reasoning, or None if it does not.

    A Claude or GPT model that is not listed binds if its version is newer than those known not to.
    So does a Claude model whose name has no version.

    >>> binding_of("us.anthropic.claude-opus-5-5-20261001-v1:0").failed_check
    'drop'
    >>> binding_of("claude-opus-6").failed_check, binding_of("gpt-6.1-sol").failed_check
    ('error', 'drop')
    >>> binding_of("claude-sonnet-4-5-20250929") is None and binding_of("gpt-5.6") is None
    True
    """
    name = bare_name(model or "")
    listed = shipped_bindings()
    matches = [family for family in listed if belongs(name, family)]
    if matches:
        return listed[max(matches, key=len)]
    family = _FAMILIES.get(name.partition("-")[0])
    if family is None:
        return None
    version = _version(name)
    is_bound = family.without_version if version is None else version >= family.first_version
    return family.binding if is_bound else None


def binds(model: str | None) -> bool:
    """Return True if an edit costs this model the reasoning after it.

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
    """Return the major and minor version in a model's name, in either spelling.

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
