"""Work that nobody waits for gives way to work that somebody does."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agora.core.tokens import TokenCounter

_TURN_SECONDS = 0.005
"""How long such work goes on before it rests. Threads share one interpreter: without rests the
event loop waits for its turn at each of its calls to the system."""
_REST_SECONDS = 0.002
_GIVES_SECONDS = 0.05
"""How long it rests while others are at work; then it has a turn all the same."""


@dataclass(slots=True)
class GiveWay:
    """Called now and then by long work; returns when it may go on. For one thread."""

    others_work: Callable[[], bool]
    _since: float = field(default_factory=time.monotonic, init=False)

    def __call__(self) -> None:
        """Rest if it is time to."""
        now = time.monotonic()
        if now - self._since < _TURN_SECONDS:
            return
        until = now + _GIVES_SECONDS
        time.sleep(_REST_SECONDS)
        while self.others_work() and time.monotonic() < until:
            time.sleep(_REST_SECONDS)
        self._since = time.monotonic()


@dataclass(frozen=True, slots=True)
class PausedCounts:
    """Counts as another counter does, with a pause before each count."""

    counter: TokenCounter
    pause: Callable[[], object]

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""
        self.pause()
        return self.counter.count(text)
