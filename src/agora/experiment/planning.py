"""How many conversations an experiment takes."""

import math

from agora.experiment.sequences import WARM_UP, threshold

POWER_Z = 0.8416
"""Four experiments of five see the effect by then."""
_MOST = 10**9


def conversations_needed(effect: float, spread: float, alpha: float) -> int | None:
    """Return how many conversations, of both arms together, show an effect four times of five.

    Args:
        effect: the change of the mean, as a share of it: 0.1 or -0.1.
        spread: the standard deviation of the figure, as a share of its mean.
        alpha: the chance of a false alarm, however often one looks.

    >>> conversations_needed(0.2, 1.0, 0.05)
    1560
    >>> conversations_needed(0.0, 1.0, 0.05) is None
    True
    """

    def shows(count: int) -> bool:
        squares = count * spread * spread
        off = count * abs(effect) / 2 - POWER_Z * math.sqrt(squares)
        return off > 0 and off * off >= threshold(squares, spread * spread, alpha)

    low, high = 1, 2
    while not shows(high):
        low, high = high, high * 2
        if high > _MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high + WARM_UP
