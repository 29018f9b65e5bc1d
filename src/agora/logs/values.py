"""Times and texts out of JSON that may hold anything."""

import json
from datetime import UTC, datetime
from typing import Any

_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""Numbers above the first are counted in parts of a second of the second: no year is that far."""

_TOO_DEEP = "[nested too deeply]"


def as_text(value: Any) -> str:
    """Return a string as it is, nothing for null, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return "" if value is None else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return _TOO_DEEP


def as_seconds(value: Any) -> float | None:
    """Return seconds since 1970, from a number in any unit or an ISO 8601 time.

    >>> as_seconds("1970-01-01T00:01:00Z"), as_seconds(1_700_000_000_500)
    (60.0, 1700000000.5)
    """
    if isinstance(value, str):
        if value.isascii() and value.isdigit() and len(value) < 24:
            value = int(value)
        else:
            return _iso_seconds(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < 1e20:
        return None
    for bound, unit in _UNITS:
        if value >= bound:
            return value / unit
    return float(value)


def _iso_seconds(text: str) -> float | None:
    if len(text) > 40:
        return None
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def as_json(value: Any) -> Any:
    """Return the JSON value in a string, or the value unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
