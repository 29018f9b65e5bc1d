"""The methods that the judge compares: their names for people, and the lab's methods behind them.

To compare another one, add a line here and run `agora lab fidelity run` on the same folder
again: only what is missing is computed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from agora.core.request import Observations
from agora.core.tokens import TokenCounter
from agora_lab.judge.judged import MAIN_KEEP
from agora_lab.methods import Method, MethodSettings, method

EVERYTHING = "everything"
FLOOR = "floor"


@dataclass(frozen=True, slots=True)
class Row:
    """A method and how much of what lies outside the floor it may keep."""

    method: str
    keep: float | None

    @property
    def label(self) -> str:
        """Its name in the files of a run.

        >>> Row("newest", 0.25).label, Row("floor", None).label
        ('newest@0.25', 'floor')
        """
        return self.method if self.keep is None else f"{self.method}@{self.keep:g}"


LAB_METHODS: dict[str, str] = {
    EVERYTHING: "none",
    # The newest steps with no room but the floor's.
    FLOOR: "sliding_window",
    "newest": "sliding_window",
    "forms_now": "agora",
    "commands_first": "commands_first",
    "masking": "observation_mask_matched",
    "langchain": "langchain",
    "litellm": "litellm",
}
GATE: tuple[Row, ...] = (Row(EVERYTHING, None), Row(FLOOR, None))
"""What decides whether an anchor can tell anything."""
_COMPARED = tuple(name for name in LAB_METHODS if name not in (EVERYTHING, FLOOR))
_AT_EVERY_ANCHOR = ("newest", "forms_now", "commands_first", "masking")
FIRST: tuple[Row, ...] = tuple(Row(name, MAIN_KEEP) for name in _AT_EVERY_ANCHOR)
"""Measured at every anchor as soon as it passes, in this order, so that a stop leaves the most
telling ones whole."""
SECOND: tuple[Row, ...] = (
    *(Row(name, MAIN_KEEP) for name in _COMPARED if name not in _AT_EVERY_ANCHOR),
    *(Row(name, keep) for keep in (0.15, 0.5) for name in ("newest", "forms_now")),
)
"""Measured after each block of anchors."""


def chosen(
    methods: Collection[str] | None,
    *,
    shares: Sequence[float] = (),
    only_first: bool = False,
    given: bool = False,
) -> tuple[list[Row], list[Row]]:
    """Return the rows to measure at every anchor, and those that come after each block of anchors.

    With shares, whatever is measured at every anchor is measured at these instead. Where prompts
    are given, methods may have any name.

    >>> [row.label for row in chosen(["newest", "forms_now"], shares=[0.15])[0]]
    ['newest@0.15', 'forms_now@0.15']

    Raises:
        ValueError: there is no method of a name.
    """
    unknown = [name for name in methods or () if name not in LAB_METHODS]
    if unknown and not given:
        known = ", ".join(_COMPARED)
        raise ValueError(f"unknown method {unknown[0]!r}; use one of {known}")
    wanted = [row for row in (*FIRST, *SECOND) if methods is None or row.method in methods]
    wanted += [Row(name, MAIN_KEEP) for name in unknown]
    later = [row for row in wanted if row in SECOND or row.keep != MAIN_KEEP]
    first = [row for row in wanted if row not in later]
    if shares:
        return [Row(row.method, share) for share in shares for row in first], []
    return first, [] if only_first else later


RELEASED = frozenset({"langchain", "litellm"})
"""Methods of released packages: they are asked once for the share, and send what they send."""


def made(
    row: Row,
    *,
    counter: TokenCounter,
    observations: Observations | None,
    share: float | None = None,
) -> Method:
    """Return the lab's method behind a row, with a share of its own or the row's.

    `keep_ratio` elsewhere is a share of the whole prompt with a fifth of what is outside the
    floor as its least (`Chat.room`). Here it is a share of what is outside the floor, for every
    method: prompts whose floors differ can then be compared.

    Raises:
        SkipMethod: it cannot run here.
    """
    if row.method == EVERYTHING:
        return method("none")
    room = (row.keep or 0.0) if share is None else share
    options: dict[str, Any] = {"share": room, "counter": counter}
    if row.method == "forms_now":
        options["edits"] = "every_call"
    settings = MethodSettings(observations=observations, options=options)
    return method(LAB_METHODS[row.method], settings)
