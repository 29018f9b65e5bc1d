"""A cap in dollars that cannot be passed: calls are counted before they are sent, at their worst.

What a call may cost at most is known beforehand: no tokenizer makes more tokens of a text than it
has bytes, no answer is longer than it was asked to be, and every token may be billed at the dearest
price. That much is written down before anything is sent, and never given back: what a provider says
afterwards may be too little, late or nothing at all. So several times as much is counted as is
billed; the cap holds for both.
"""

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agora.core.prices import FAMILIES, UNKNOWN, PriceSheet, sheet_for
from agora.errors import AgoraError
from agora_lab.journal import BusyError, Journal, read_lines

_NANO = 1_000_000_000
_PATIENCE_SECONDS = 30.0
_BESIDE_TOKENS = 1_000
"""For what a provider puts around a prompt."""


class CapReachedError(AgoraError):
    """The next call might pass the cap."""

    def __init__(self, most: float, spent: float, worst: float) -> None:
        super().__init__(most, spent, worst)
        self.most = most
        self.spent = spent
        self.worst = worst

    def __str__(self) -> str:
        return (
            f"the cap of ${self.most:g} is reached: ${self.spent:.4f} is counted, and the next "
            f"call may cost ${self.worst:.4f}; raise --max-dollars to go on from here"
        )


class NoPriceError(AgoraError):
    """A model without a price: no cap can hold for it."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.model = model

    def __str__(self) -> str:
        return (
            f"{self.model!r} has no price sheet of its own, and without prices no cap holds; give "
            "them with --dollars-per-million INPUT OUTPUT"
        )


def prices_of(model: str, given: tuple[float, float] | None = None) -> PriceSheet:
    """Return the prices of a model: those that were given, or its own sheet.

    Raises:
        NoPriceError: there is none; that of a family is a guess.
    """
    if given is not None:
        own = sheet_for(model)
        return PriceSheet(
            name=model, input=given[0], read=own.read, write=own.write, output=given[1]
        )
    sheet = sheet_for(model)
    if sheet.name in (UNKNOWN, *FAMILIES):
        raise NoPriceError(model)
    return sheet


def worst_case(sheet: PriceSheet, body: bytes, max_tokens: int) -> float:
    """Return the most dollars that a request may cost.

    >>> sheet = PriceSheet(name="m", input=2.0, read=0.1, write=1.25, output=10.0)
    >>> round(worst_case(sheet, b"x" * 3_000, 100), 6)
    0.011
    """
    tokens = len(body) + _BESIDE_TOKENS
    written = max(sheet.dollars(written=tokens), sheet.dollars(uncached=tokens))
    # The answer is priced by the tier of its prompt.
    output = sheet.dollars(uncached=tokens, output=max_tokens) - sheet.dollars(uncached=tokens)
    return written + output


class Purse:
    """What may be spent, and a file of what was: it holds across restarts and processes."""

    def __init__(self, path: Path, most: float) -> None:
        self._path = path
        self._most = math.floor(most * _NANO)

    def spend(self, worst: float) -> None:
        """Count a call that is about to be sent.

        Raises:
            CapReachedError: it might pass the cap; nothing is counted then.
        """
        nano = math.ceil(worst * _NANO)
        with _locked(self._path) as journal:
            spent = spent_from(self._path).nano_dollars
            if spent + nano > self._most:
                raise CapReachedError(self._most / _NANO, spent / _NANO, worst)
            _write(journal, {"nano_dollars": nano})

    def report(self, worst: float, reported: float) -> None:
        """Take in what a provider says a call cost; less than its worst case changes nothing."""
        over = math.ceil(reported * _NANO) - math.ceil(worst * _NANO)
        if over > 0:
            with _locked(self._path) as journal:
                _write(journal, {"nano_dollars": over, "reported": True})


class Spent(NamedTuple):
    """What is counted in a purse."""

    nano_dollars: int
    calls: int

    @property
    def dollars(self) -> float:
        """The same in dollars."""
        return self.nano_dollars / _NANO


def spent_from(path: Path) -> Spent:
    """Return what is counted in a purse; nothing where there is no file."""
    lines = [json.loads(line) for line in read_lines(path)] if path.exists() else []
    calls = sum("reported" not in line for line in lines)
    return Spent(sum(line["nano_dollars"] for line in lines), calls)


@contextmanager
def _locked(path: Path) -> Iterator[Journal]:
    """Hold the file for one entry, so that several processes may spend from it."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            journal = Journal(path)
            break
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
    try:
        yield journal
    finally:
        journal.close()


def _write(journal: Journal, line: dict[str, int | bool]) -> None:
    # On disk before the call is sent: a process that is killed must not forget it.
    journal.add(json.dumps(line).encode())
    journal.sync()
