"""Checks of a compressor's settings."""

import difflib
import functools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any, Literal, TypeVar

from agora.core.budget import Budget
from agora.core.prices import PriceSheet
from agora.errors import SettingError

C = TypeVar("C")
EDITS = ("by_price", "free", "every_call", "never")


def refuses_unknown(cls: type[C]) -> type[C]:
    """Make a dataclass raise `SettingError` for a setting that it does not have.

    The error names the nearest setting, of the class or of its budget.
    """
    begin: Any = cls.__init__
    known = [field.name for field in fields(cls) if field.init]  # type: ignore[arg-type]
    of_budget = [field.name for field in fields(Budget)]

    @functools.wraps(begin)
    def init(self: C, **settings: Any) -> None:
        for name, value in settings.items():
            if name not in known:
                near = difflib.get_close_matches(name, [*known, *of_budget], n=1)
                needed = near[0] if near else f"one of {', '.join(known)}"
                if needed in of_budget:
                    needed = f"budget=Budget({needed}={value!r})"
                raise SettingError(name, "no setting", needed)
        begin(self, **settings)

    cls.__init__ = init  # type: ignore[assignment]
    return cls


def check_edits(edits: Any) -> None:
    """Raise `SettingError` for an unknown mode of edits."""
    if edits not in EDITS:
        raise SettingError("edits", repr(edits), "by_price, free, every_call or never", EDITS)


def check_count(setting: str, value: object) -> None:
    """Raise `SettingError` unless the value is a whole number, 0 or more."""
    if not isinstance(value, int) or value < 0:
        raise SettingError(setting, repr(value), "a whole number, 0 or more")


ToolKind = Literal["keep", "changes", "reads"]
TOOL_KINDS = ("keep", "changes", "reads")


def tool_kinds(tools: Any) -> Mapping[str, ToolKind]:
    """Return a copy of a mapping of tools; raise `SettingError` for anything else."""
    needed = 'names of tools with keep, changes or reads, such as {"read_policy": "keep"}'
    if not isinstance(tools, Mapping) or not all(isinstance(name, str) for name in tools):
        raise SettingError("tools", repr(tools), needed)
    for name, kind in tools.items():
        if kind not in TOOL_KINDS:
            raise SettingError(f"tools[{name!r}]", repr(kind), "keep, changes or reads", TOOL_KINDS)
    return dict(tools)


def step_numbers(pins: Any) -> frozenset[int]:
    """Return the pins.

    Raises:
        SettingError: A pin is not a valid step number. The mistake is the caller's, and a step that
            the caller thinks is pinned must not be elided.
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
    check_share("forgetting", settings.forgetting, most=math.inf)
    check_count("k_recent", settings.k_recent)
    check_count("min_tokens", settings.min_tokens)
    if not isinstance(settings.max_cost_ratio, int | float) or not settings.max_cost_ratio >= 1:
        needed = "a ratio to never editing, 1 or more, such as 1.05"
        raise SettingError("max_cost_ratio", repr(settings.max_cost_ratio), needed)
    if settings.sheet is not None and not isinstance(settings.sheet, PriceSheet):
        needed = "a PriceSheet; agora.core.prices.sheet_for(model) returns one"
        raise SettingError("sheet", repr(settings.sheet), needed)
    if settings.counter is not None and not callable(getattr(settings.counter, "count", None)):
        raise SettingError("counter", repr(settings.counter), "an object with a count method")


def check_share(setting: str, value: object, *, most: float = 1) -> None:
    """Raise `SettingError` unless the value is a number from 0 to `most`."""
    if not isinstance(value, int | float) or not 0 <= value <= most:
        needed = "a number, 0 or more" if most > 1 else "a number from 0 to 1"
        raise SettingError(setting, repr(value), needed)
