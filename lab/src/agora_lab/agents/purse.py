"""A cap in dollars for calls to a provider, shared by threads, processes and restarts.

Each call reserves the most it may cost before it is sent and settles by the provider's usage
afterwards. No tokenizer makes more tokens of a text than it has bytes, and no answer is longer
than its `max_tokens`, so the reservation is an upper bound.
"""

import math
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from agora import AgoraError, sheet_for

_NANO = 1_000_000_000
_TEMPLATE_TOKENS = 1_000
"""Room for the text that a provider adds to a prompt."""
_GUESSES = frozenset({"unknown", "claude", "gpt", "gemini", "deepseek", "mistral"})
"""Price sheets of whole families: guesses, on which no cap may rest."""


class PurseEmptyError(AgoraError):
    """The next call might pass the cap, so it was not sent."""

    def __init__(self, max_dollars: float, spent: float, needed: float) -> None:
        super().__init__(max_dollars, spent, needed)
        self.max_dollars = max_dollars
        self.spent = spent
        self.needed = needed

    def __str__(self) -> str:
        return (
            f"the cap of ${self.max_dollars:g} is reached: ${self.spent:.4f} is spent or reserved, "
            f"and the next call may cost ${self.needed:.4f}; raise --max-dollars to continue"
        )


class NoPriceError(AgoraError):
    """A model without known prices cannot be held under a cap."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.model = model

    def __str__(self) -> str:
        return (
            f"{self.model!r} has no known price, and without one no cap can hold; "
            "pass --dollars-per-million INPUT OUTPUT"
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars per million tokens.

    >>> Prices(input=0.15, output=0.6, cached=0.075).dollars(input_tokens=1_000_000)
    0.15
    """

    input: float
    output: float
    cached: float | None = None
    """For input read from the provider's cache; None if it costs the same."""

    @classmethod
    def of(cls, model: str) -> "Prices":
        """Look up the prices of a model.

        Raises:
            NoPriceError: The model has no price sheet of its own.
        """
        sheet = sheet_for(model)
        if sheet.name in _GUESSES:
            raise NoPriceError(model)
        return cls(sheet.input, sheet.output, sheet.input * sheet.read)

    def dollars(
        self, *, input_tokens: int, output_tokens: int = 0, cached_tokens: int = 0
    ) -> float:
        """Return the cost of a call."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(0, input_tokens - cached_tokens)
        return (
            fresh * self.input + cached_tokens * cached + output_tokens * self.output
        ) / 1_000_000

    def most(self, body: bytes, output_tokens: int) -> float:
        """Return the most that one try of a request can cost."""
        return self.dollars(input_tokens=len(body) + _TEMPLATE_TOKENS, output_tokens=output_tokens)


class Purse:
    """Dollars that calls may spend together.

    With a `path`, all processes that name the same file share the purse, and a later run
    continues from the same sum. The reservations of a killed process count as spent.

    >>> purse = Purse(1.0)
    >>> purse.reserve(0.75)
    >>> purse.settle(0.75, 0.5)
    >>> purse.spent
    0.5
    """

    def __init__(self, max_dollars: float, path: Path | None = None) -> None:
        self.max_dollars = max_dollars
        self.path = path
        self._lock = threading.Lock()
        self._connect()

    def reserve(self, dollars: float) -> None:
        """Set dollars aside for a call that is about to be sent.

        Raises:
            PurseEmptyError: They might pass the cap; nothing is reserved.
        """
        nano = math.ceil(dollars * _NANO)
        most = math.floor(self.max_dollars * _NANO) - nano
        if not self._change("SET nano = nano + ?, calls = calls + 1 WHERE nano <= ?", nano, most):
            raise PurseEmptyError(self.max_dollars, self.spent, dollars)

    def settle(self, reserved: float, spent: float) -> None:
        """Replace a reservation by the cost of the call."""
        self._change("SET nano = nano + ?", math.ceil(spent * _NANO) - math.ceil(reserved * _NANO))

    @property
    def spent(self) -> float:
        """Dollars spent or reserved."""
        return float(self._row()[0]) / _NANO

    @property
    def calls(self) -> int:
        """Calls that were paid from this purse."""
        return int(self._row()[1])

    def __reduce__(self) -> tuple[type["Purse"], tuple[float, Path | None]]:
        if self.path is None:
            raise TypeError("a purse without a file cannot be shared between processes")
        return Purse, (self.max_dollars, self.path)

    def _connect(self) -> None:
        self._data = sqlite3.connect(
            self.path or ":memory:", timeout=60, isolation_level=None, check_same_thread=False
        )
        self._data.execute("CREATE TABLE IF NOT EXISTS purse (id INTEGER PRIMARY KEY, nano, calls)")
        self._data.execute("INSERT OR IGNORE INTO purse VALUES (1, 0, 0)")

    def _change(self, sql: str, *values: int) -> bool:
        with self._lock:
            return self._data.execute(f"UPDATE purse {sql}", values).rowcount == 1

    def _row(self) -> tuple[int, int]:
        with self._lock:
            nano, calls = self._data.execute("SELECT nano, calls FROM purse").fetchone()
        return nano, calls
