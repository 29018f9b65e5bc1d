"""What the settings of a compressor may be, and what is said of one that may not."""

from collections.abc import Collection, Iterable
from typing import Any

from agora.core.actions import Tools
from agora.errors import SettingError

SCHEDULES = ("by_price", "every_call", "never")


def check_schedule(schedule: Any) -> None:
    """Refuse what is neither the name of a schedule nor one."""
    if schedule not in SCHEDULES and not callable(getattr(schedule, "edit", None)):
        needed = "by_price, every_call or never, or an object with an edit method"
        raise SettingError("schedule", repr(schedule), needed, SCHEDULES)


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


def check_apart(tools: Tools) -> None:
    """Refuse a tool that is said both to change something and to read."""
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
