"""Intervals for the effect of an arm that hold at every look.

The method is a design-based confidence sequence (Ham, Bojinov, Lindon and Tingley, 2022) with the
normal mixture boundary of Robbins (1970). Conversations come one after the other, and a fair coin
(the hash) decides the arm of each. Under a hypothetical effect, the figure that a conversation
would have had without AGORA is known up to that coin. So the sign of

    x = ±(that figure − the mean of untreated figures so far)

is a fair coin too, whatever the figure: heavy tails, drift and correlated conversations change
nothing. For such sums, exp(λ Σx − λ² Σx²/2) is a
supermartingale (cosh a ≤ exp(a²/2)), its mixture over λ too, and Ville's inequality bounds the
chance that it ever reaches 1/alpha. The interval has every effect that was never rejected.

If the effect is the same for all conversations, as a ratio or as a difference, this is exact from
the first conversation on. If it differs, the interval is for the average effect and holds in the
limit (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2021). A conversation must not change the
figures of another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

WARM_UP = 20
"""How many first conversations only estimate the mean and the variance."""
TIGHTEST = 600
"""The number of conversations, of both arms, at which the boundary is tightest."""
_MIXTURE = 8.0
"""Divisor of the best variance of the mixture, at an alpha of 5%."""
_FARTHEST = 1e4
_HALVINGS = 50

Test = Callable[[float], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An effect: its estimate, and the lowest and highest values that were never rejected."""

    estimate: float
    low: float
    high: float


@dataclass(slots=True)
class Comparison:
    """Two arms compared in one figure, by a fixed number of sums."""

    warm: int = 0
    warm_mean: float = 0.0
    warm_squares: float = 0.0
    scale: float = 0.0
    """Variance of the first conversations; 0 before there are enough. A value passed in is used
    as it is, without a warm-up."""
    untreated: int = 0
    usual: float = 0.0
    """Mean of untreated figures so far, with which the next figure is compared."""
    treated: int = 0
    treated_sum: float = 0.0
    treated_squares: float = 0.0
    treated_by_usual: float = 0.0
    usual_sum: float = 0.0
    usual_squares: float = 0.0
    """Sum of squares of `usual` at each treated conversation."""
    off_sum: float = 0.0
    off_squares: float = 0.0
    """Sum of squares of untreated figures minus `usual`."""

    def observe(self, value: float, *, treated: bool) -> None:
        """Add the figure of the next conversation that ended."""
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
        # A figure that never varied has no scale: wait until it does.
        if self.warm >= WARM_UP and self.untreated and self.warm_squares > 0:
            self.scale = self.warm_squares / (self.warm - 1)

    def ratio(self, alpha: float) -> Interval | None:
        """Return the factor by which AGORA multiplies the figure, or None if there is no data yet.

        >>> pair = Comparison()
        >>> for at in range(4_000):
        ...     pair.observe(10 + at % 7 - 2 * (at % 2), treated=at % 2 == 1)
        >>> effect = pair.ratio(0.05)
        >>> [round(end, 2) for end in (effect.low, effect.estimate, effect.high)]
        [0.83, 0.85, 0.86]
        """
        without = self.usual_sum + self.off_sum
        if not self.scale or self.treated_sum <= 0 or without <= 0:
            return None
        estimate = self.treated_sum / without

        def is_possible(factor: float) -> bool:
            return not self.rejects_ratio(estimate * factor, alpha)

        most = _farthest(is_possible, lambda distance: 1 + distance)
        least = _farthest(is_possible, lambda distance: 1 / (1 + distance))
        return Interval(
            estimate=estimate,
            low=0.0 if least is None else estimate * least,
            high=math.inf if most is None else estimate * most,
        )

    def difference(self, alpha: float) -> Interval | None:
        """Return the amount that AGORA adds to the figure, or None if there is no data yet."""
        if not self.scale or not self.treated:
            return None
        estimate = (self.treated_sum - self.usual_sum - self.off_sum) / self.treated
        unit = math.sqrt(self.scale)

        def is_possible(off: float) -> bool:
            return not self.rejects_difference(estimate + off * unit, alpha)

        most = _farthest(is_possible, lambda distance: distance)
        least = _farthest(is_possible, lambda distance: -distance)
        return Interval(
            estimate=estimate,
            low=-math.inf if least is None else estimate + least * unit,
            high=math.inf if most is None else estimate + most * unit,
        )

    def rejects_ratio(self, ratio: float, alpha: float) -> bool:
        """Return True if the data exclude that AGORA multiplies the figure by `ratio`."""
        back = 1 / ratio
        off = back * self.treated_sum - self.usual_sum - self.off_sum
        squares = back * back * self.treated_squares - 2 * back * self.treated_by_usual
        return self._rejects(off, squares + self.usual_squares + self.off_squares, alpha)

    def rejects_difference(self, added: float, alpha: float) -> bool:
        """Return True if the data exclude that AGORA adds `added` to the figure."""
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
    """Return the square of a sum from which on chance is excluded, by the sum of its squares."""
    mixture = scale * TIGHTEST / _MIXTURE
    total = squares + mixture
    return total * (2 * math.log(1 / alpha) + math.log(total / mixture))


def _farthest(is_possible: Test, place: Callable[[float], float]) -> float | None:
    """Return the farthest possible value from the estimate, or None if there is no end."""
    low, high = 0.0, 1e-6
    while is_possible(place(high)):
        low, high = high, high * 2
        if high > _FARTHEST:
            return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_possible(place(middle)) else (low, middle)
    # The outer end: values that were not tested are not excluded.
    return place(high)
