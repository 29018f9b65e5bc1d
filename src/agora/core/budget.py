"""How much of a prompt may stay: a ratio or a number, in tokens or in characters."""

from dataclasses import dataclass
from typing import Literal

from agora.errors import SettingError

KEEP_RATIO = 0.25
"""The paper's."""
MIN_RATIO = 0.2
"""Chosen by evidence; see adr/."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A share of the whole prompt (`keep_ratio`), or a size (`limit`); a quarter by default.

    A floor that is large compared with its steps would leave nothing for them. So of
    the tokens outside the floor `min_ratio` stays in any case. A `limit`
    has no such share.

    >>> Budget(keep_ratio=0.25).of(1_000)
    250
    >>> Budget(keep_ratio=0.25).of(1_000, floor=500)
    600
    >>> Budget(limit=6_000).of(1_000)
    6000
    """

    keep_ratio: float | None = None
    limit: int | None = None
    unit: Literal["tokens", "characters"] = "tokens"
    min_ratio: float = MIN_RATIO

    def __post_init__(self) -> None:
        if self.keep_ratio is not None and self.limit is not None:
            raise SettingError("budget", "both a keep_ratio and a limit", "one of the two")
        if self.keep_ratio is None and self.limit is None:
            object.__setattr__(self, "keep_ratio", KEEP_RATIO)
        for name, ratio in (("keep_ratio", self.keep_ratio), ("min_ratio", self.min_ratio)):
            if ratio is not None and not (isinstance(ratio, int | float) and 0 <= ratio <= 1):
                raise SettingError(name, repr(ratio), "a share from 0 to 1")
        if self.unit not in ("tokens", "characters"):
            raise SettingError("unit", repr(self.unit), "tokens or characters")
        if self.limit is not None:
            if not isinstance(self.limit, int) or self.limit < 0:
                raise SettingError("limit", repr(self.limit), "a whole number, 0 or more")
            object.__setattr__(self, "min_ratio", 0.0)

    def of(self, total: int, *, floor: int = 0) -> int:
        """Return the budget for a prompt of `total` tokens, `floor` of them protected."""
        if self.limit is not None:
            return self.limit
        assert self.keep_ratio is not None  # noqa: S101 - set in __post_init__
        return int(max(total * self.keep_ratio, floor + (total - floor) * self.min_ratio))
