"""What holds work back for a while after it failed."""

import time
from collections import OrderedDict
from collections.abc import Callable


class Breaker:
    """Lets work through until it failed several times in a row, then one probe at a time.

    Never a latch: after `cool_seconds` a probe goes through, and if it is not heard of again, the
    next one after as many seconds more.

    >>> now = [0.0]
    >>> breaker = Breaker(failures=1, cool_seconds=30, clock=lambda: now[0])
    >>> breaker.failed(); breaker.allows()
    False
    >>> now[0] = 31.0
    >>> breaker.allows(), breaker.allows()
    (True, False)
    >>> breaker.succeeded(); breaker.allows()
    True
    """

    __slots__ = ("_clock", "_closed", "_cool", "_failures", "_most", "_next_probe")

    def __init__(
        self,
        *,
        failures: int = 5,
        cool_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = failures
        self._cool = cool_seconds
        self._clock = clock
        self._failures = 0
        self._closed = True
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        """Whether work is held back."""
        return not self._closed

    def allows(self) -> bool:
        """Tell whether the next piece of work may go; if so while open, it is the probe."""
        if self._closed:
            return True
        now = self._clock()
        if now < self._next_probe:
            return False
        self._next_probe = now + self._cool
        return True

    def succeeded(self) -> None:
        """Note work that was done."""
        self._failures = 0
        self._closed = True

    def failed(self) -> None:
        """Note work that was not done."""
        self._failures += 1
        if self._failures >= self._most or not self._closed:
            self._closed = False
            self._next_probe = self._clock() + self._cool


class Breakers:
    """One breaker for each key, for the keys seen last."""

    def __init__(self, make: Callable[[], Breaker], *, most: int = 1_000) -> None:
        self._make = make
        self._most = most
        self._known: OrderedDict[object, Breaker] = OrderedDict()

    def allows(self, key: object) -> bool:
        """Tell whether work of this kind may go."""
        breaker = self._known.get(key)
        return breaker is None or breaker.allows()

    def failed(self, key: object) -> None:
        """Note work of this kind that was refused."""
        breaker = self._known.setdefault(key, self._make())
        self._known.move_to_end(key)
        breaker.failed()
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def succeeded(self, key: object) -> None:
        """Note work of this kind that was taken; what is in order need not be known."""
        self._known.pop(key, None)

    @property
    def open_ones(self) -> int:
        """How many hold work back."""
        return sum(breaker.is_open for breaker in self._known.values())
