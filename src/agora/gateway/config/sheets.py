"""Price sheets in a configuration: its own, and those that need no table of their own."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from agora.core.prices import PriceSheet, load_sheets, shipped_sheets

OWN_SERVER = "self-hosted-cached"
"""The sheet of a server of one's own with a prefix cache, as llama.cpp, vLLM and SGLang have."""
_OWN_SERVER: Mapping[str, Any] = {
    "like": "self-hosted",
    "read": 0.02,
    "ttl_seconds": 86_400,
    "source": "a cached token costs no evaluation, only its share of attention and of memory",
}


@cache
def known_sheets() -> Mapping[str, PriceSheet]:
    """Return the sheets that every configuration may name."""
    return {**shipped_sheets(), **load_sheets(_as_toml({OWN_SERVER: _OWN_SERVER}))}


def read_sheets(tables: Mapping[str, Any]) -> dict[str, PriceSheet]:
    """Return the sheets of a configuration's own tables.

    Raises:
        PriceSheetError: one of them cannot be right.
    """
    if not tables:
        return {}
    sheets = load_sheets(_as_toml({OWN_SERVER: _OWN_SERVER, **tables}))
    return {name: sheet for name, sheet in sheets.items() if name in tables}


def _as_toml(tables: Mapping[str, Any]) -> str:
    """Return the tables as a text of their own, which is what the price sheets are read from."""
    return "\n".join(f"{_toml(name)} = {_toml(table)}" for name, table in tables.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(_escaped(char) for char in value) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 32 or char in '"\\\x7f' else char
