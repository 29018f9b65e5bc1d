"""Checks of a compressor's settings."""

from collections.abc import Collection, Iterable
from typing import Any

from agora.core.actions import Tools
from agora.core.budget import Budget
from agora.core.prices import PriceSheet
from agora.errors import SettingError

EDITS = ("by_price", "free", "every_call", "never")


def check_edits(edits: Any) -> None:
    """Refuse an unknown mode of edits."""
    if edits not in EDITS:
        raise SettingError("edits", repr(edits), "by_price, free, every_call or never", EDITS)


def check_count(setting: str, value: object) -> None:
    """Refuse what is no count."""
    if not isinstance(value, int) or value < 0:
        raise SettingError(setting, repr(value), "a whole number, 0 or more")


def tool_names(setting: str, value: Any) -> tuple[str, ...]:
    """Return names of tools; refuse anything else, a single name too."""
    listed = isinstance(value, Collection) and not isinstance(value, str)
    if not listed or not all(isinstance(name, str) for name in value):
        raise SettingError(setting, repr(value), 'names of tools, such as ("read_policy",)')
    return tuple(value)


def step_numbers(pins: Any) -> frozenset[int]:
    """Return the pins.

    Raises:
        SettingError: they are no numbers of steps. No traffic is to blame for that, and a step
            that somebody takes for pinned must not be elided.
    """
    pinned = tuple(pins) if isinstance(pins, Iterable) else None
    if pinned is None or any(type(pin) is not int or pin < 1 for pin in pinned):
        shown = repr(pins if pinned is None or isinstance(pins, str) else list(pinned))
        raise SettingError("pins", shown, "numbers of steps, counted from 1, such as [3, 7]")
    return frozenset(pinned)


def check_settings(settings: Any, scorers: Collection[str]) -> None:
    """Raise `SettingError` for a setting of a compressor that is out of range or misspelt."""
    check_edits(settings.edits)
    if not callable(getattr(settings.scorer, "score", None)):
        needed = "an object with a score method; agora.load_scorer(name) returns one"
        raise SettingError("scorer", repr(settings.scorer), needed, tuple(scorers))
    if not isinstance(settings.budget, Budget):
        needed = "a Budget, such as Budget(keep_ratio=0.25) or Budget(limit=6_000)"
        raise SettingError("budget", repr(settings.budget), needed)
    check_count("k_recent", settings.k_recent)
    check_count("min_tokens", settings.min_tokens)
    if not isinstance(settings.max_cost_ratio, int | float) or not settings.max_cost_ratio >= 1:
        needed = "a ratio to never editing, 1 or more, such as 1.05"
        raise SettingError("max_cost_ratio", repr(settings.max_cost_ratio), needed)
    check_apart(Tools(settings.reading_tools, settings.changing_tools))
    if settings.sheet is not None and not isinstance(settings.sheet, PriceSheet):
        needed = "a PriceSheet; agora.core.prices.sheet_for(model) returns one"
        raise SettingError("sheet", repr(settings.sheet), needed)
    if settings.counter is not None and not callable(getattr(settings.counter, "count", None)):
        raise SettingError("counter", repr(settings.counter), "an object with a count method")


def check_apart(tools: Tools) -> None:
    """Refuse a tool that is given both as changing something and as only reading."""
    both = [name for name in tools.changing if name in tools.reading]
    if both:
        needed = (
            f"without {both[0]!r}, which is in reading_tools too: a tool changes something or"
            " only reads"
        )
        raise SettingError("changing_tools", repr(tools.changing), needed)


def check_share(setting: str, value: object) -> None:
    """Refuse what is no share."""
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise SettingError(setting, repr(value), "a number from 0 to 1")
