"""Intervals for the effect of an arm that hold however often one looks.

The method is a design-based confidence sequence (Ham, Bojinov, Lindon and Tingley, 2022) with the
normal mixture boundary of Robbins (1970). Conversations come one after the other; a fair coin, the
hash, decides over the arm of each. Under a supposed effect, what a conversation would have had
without AGORA is known up to that coin, so that

    x = ±(that figure − what was usual so far)

has a sign that is a fair coin's, whatever the figure: heavy tails, figures that drift and
conversations that go up and down together change nothing. For such sums, exp(λ Σx − λ² Σx²/2) is a
supermartingale (cosh a ≤ exp(a²/2)), its mixture over λ too, and Ville's inequality bounds the
chance that it ever reaches 1/alpha. The interval has every effect that was never rejected so.

For an effect that is the same for all, as a ratio or as a difference, this is exact from the first
conversation on. Where it differs between conversations the interval is for the average, and holds
in the limit (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2021). A conversation must not
change another one's figures.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

WARM_UP = 20
"""The first conversations only say what is usual and how widely it spreads."""
TIGHTEST = 600
"""Where the boundary is tightest, in conversations of both arms."""
_MIXTURE = 8.0
"""What the best variance of the mixture is divided by, at an alpha of 5 %."""
_FARTHEST = 1e4
_HALVINGS = 50

Test = Callable[[float], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An effect: what it is taken to be, and the least and most that were never rejected."""

    estimate: float
    low: float
    high: float


@dataclass(slots=True)
class Comparison:
    """Two arms compared in one figure of a conversation: a few sums, whatever the count."""

    warm: int = 0
    warm_mean: float = 0.0
    warm_squares: float = 0.0
    scale: float = 0.0
    """The variance that the first conversations had; 0 until they are there. One that is given
    beforehand holds, and then nothing is warmed up."""
    untreated: int = 0
    usual: float = 0.0
    """The mean without AGORA so far, which the next figure is held against."""
    treated: int = 0
    treated_sum: float = 0.0
    treated_squares: float = 0.0
    treated_by_usual: float = 0.0
    usual_sum: float = 0.0
    usual_squares: float = 0.0
    """Of what was usual when a treated one came."""
    off_sum: float = 0.0
    off_squares: float = 0.0
    """Of untreated figures less what was usual."""

    def observe(self, value: float, *, treated: bool) -> None:
        """Add the figure of one conversation, in the order in which they end."""
        usual = self.usual
        if not treated:
            self.untreated += 1
            self.usual += (value - usual) / self.untreated
        if not self.scale:
            self._warm_up(value)
        elif treated:
            self.treated += 1
            self.treated_sum += value
            self.treated_squares += value * value
            self.treated_by_usual += value * usual
            self.usual_sum += usual
            self.usual_squares += usual * usual
        else:
            self.off_sum += value - usual
            self.off_squares += (value - usual) ** 2

    def _warm_up(self, value: float) -> None:
        self.warm += 1
        off = value - self.warm_mean
        self.warm_mean += off / self.warm
        self.warm_squares += off * (value - self.warm_mean)
        # A figure that has always been the same has no scale yet: wait for one that differs.
        if self.warm >= WARM_UP and self.untreated and self.warm_squares > 0:
            self.scale = self.warm_squares / (self.warm - 1)

    def ratio(self, alpha: float) -> Interval | None:
        """Return by what AGORA multiplies the figure; None while nothing can be said.

        >>> pair = Comparison()
        >>> for at in range(4_000):
        ...     pair.observe(10 + at % 7 - 2 * (at % 2), treated=at % 2 == 1)
        >>> found = pair.ratio(0.05)
        >>> [round(each, 2) for each in (found.low, found.estimate, found.high)]
        [0.83, 0.85, 0.86]
        """
        without = self.usual_sum + self.off_sum
        if not self.scale or self.treated_sum <= 0 or without <= 0:
            return None
        estimate = self.treated_sum / without

        def stands(factor: float) -> bool:
            return not self.rejects_ratio(estimate * factor, alpha)

        most = _farthest(stands, lambda distance: 1 + distance)
        least = _farthest(stands, lambda distance: 1 / (1 + distance))
        return Interval(
            estimate=estimate,
            low=0.0 if least is None else estimate * least,
            high=math.inf if most is None else estimate * most,
        )

    def difference(self, alpha: float) -> Interval | None:
        """Return what AGORA adds to the figure; None while nothing can be said."""
        if not self.scale or not self.treated:
            return None
        estimate = (self.treated_sum - self.usual_sum - self.off_sum) / self.treated
        unit = math.sqrt(self.scale)

        def stands(off: float) -> bool:
            return not self.rejects_difference(estimate + off * unit, alpha)

        most = _farthest(stands, lambda distance: distance)
        least = _farthest(stands, lambda distance: -distance)
        return Interval(
            estimate=estimate,
            low=-math.inf if least is None else estimate + least * unit,
            high=math.inf if most is None else estimate + most * unit,
        )

    def rejects_ratio(self, ratio: float, alpha: float) -> bool:
        """Tell whether the figure is surely not multiplied by this."""
        back = 1 / ratio
        off = back * self.treated_sum - self.usual_sum - self.off_sum
        squares = back * back * self.treated_squares - 2 * back * self.treated_by_usual
        return self._rejects(off, squares + self.usual_squares + self.off_squares, alpha)

    def rejects_difference(self, added: float, alpha: float) -> bool:
        """Tell whether this is surely not what is added to the figure."""
        off = self.treated_sum - self.usual_sum - self.treated * added - self.off_sum
        squares = (
            self.treated_squares
            - 2 * self.treated_by_usual
            + self.usual_squares
            - 2 * added * (self.treated_sum - self.usual_sum)
            + self.treated * added * added
        )
        return self._rejects(off, squares + self.off_squares, alpha)

    def _rejects(self, off: float, squares: float, alpha: float) -> bool:
        if not self.scale:
            return False
        return off * off >= threshold(max(0.0, squares), self.scale, alpha)


def threshold(squares: float, scale: float, alpha: float) -> float:
    """Return what the square of a sum must reach to be no chance, given the sum of its squares."""
    mixture = scale * TIGHTEST / _MIXTURE
    total = squares + mixture
    return total * (2 * math.log(1 / alpha) + math.log(total / mixture))


def _farthest(stands: Test, place: Callable[[float], float]) -> float | None:
    """Return the farthest place from the estimate that stands; None if no end is found."""
    low, high = 0.0, 1e-6
    while stands(place(high)):
        low, high = high, high * 2
        if high > _FARTHEST:
            return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if stands(place(middle)) else (low, middle)
    # The outer end: what was not tried out stands.
    return place(high)
