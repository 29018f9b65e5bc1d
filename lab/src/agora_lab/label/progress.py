"""Progress of a run: the counts of its askers, summed, and an estimate for the rest."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, fields

from agora.core.prices import PriceSheet


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was asked and answered since a run began."""

    answered: int = 0
    found: int = 0
    """Answers found in a journal and not asked for again."""
    failed: int = 0
    calls: int = 0
    """Requests, including retries."""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            **{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        )

    def dollars(self, sheet: PriceSheet | None) -> float:
        """Return the cost by a price sheet; 0 without one."""
        if sheet is None:
            return 0.0
        return sheet.dollars(
            read=self.cached_tokens,
            uncached=self.input_tokens - self.cached_tokens,
            output=self.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run at one moment."""

    planned: int
    before: int
    """Answers present when the run began."""
    counts: Counts
    sealed: int
    """Answers in `answers/`, including earlier ones."""
    seconds: float
    rate: float
    """Recent answers per second."""
    dollars: float

    @property
    def done(self) -> int:
        """Answers that need not be asked for again."""
        return min(self.planned, self.before + self.counts.answered + self.counts.found)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None until there is a rate."""
        return (self.planned - self.done) / self.rate if self.rate > 0 else None

    def __str__(self) -> str:
        left = "?" if self.seconds_left is None else clock(self.seconds_left)
        return (
            f"{self.done:,} of {self.planned:,} answers ({self.sealed:,} written), "
            f"{self.counts.failed:,} failed; {_speed(self.rate)}, {left} left; "
            f"{self.counts.input_tokens:,} tokens in ({self.counts.cached_tokens:,} cached), "
            f"{self.counts.output_tokens:,} out, {self.dollars:,.2f} dollars"
        )


class Pace:
    """Answers per second over a recent window of seconds and answers.

    A slow server may give none for a minute, so the window also spans a minimum
    number of answers.

    >>> pace = Pace(over_s=60)
    >>> pace.at(0, 0), pace.at(10, 50), pace.at(20, 200)
    (0.0, 5.0, 10.0)
    """

    def __init__(self, over_s: float = 60.0, over: int = 20) -> None:
        self._over_s = over_s
        self._over = over
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, seconds: float, count: int) -> float:
        """Return the rate, given the count at this time."""
        if len(self._seen) > 1 and self._seen[-1][1] == count == self._seen[-2][1]:
            # Hours without an answer take two entries, not thousands.
            self._seen.pop()
        self._seen.append((seconds, count))
        while len(self._seen) > 2:
            next_s, next_count = self._seen[1]
            if seconds - next_s < self._over_s or count - next_count < self._over:
                break
            self._seen.popleft()
        since, then = self._seen[0]
        return (count - then) / (seconds - since) if seconds > since else 0.0


def _speed(rate: float) -> str:
    return f"{rate:,.1f}/s" if rate >= 1 else f"{rate * 3600:,.0f}/h"


def total(counts: Iterable[Counts]) -> Counts:
    """Return the sum of the counts."""
    return sum(counts, Counts())


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> clock(59.6), clock(3725)
    ('0:01:00', '1:02:05')
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
