"""Cases drawn from a seed, without hypothesis: the same seed gives the same case everywhere."""

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType

from harness.histories.choices import TAPE_BYTES
from harness.histories.history import Recipe, build
from harness.properties.case import SETUP_BYTES, Case

_SHORTEST_TAPE = 8
_LONGEST_TEXT = 24
_ALPHABETS = (
    "abcdefgh 0123456789",
    " \t\n\r\x0b\x00\u2028\u200b",
    "[]{}<>|:#*`'\"\\/-",
    "éßøñ订单注文주문الطلبनम",
    "👩🏳✅🧪\u202e\u0301\ufeff\U0010ffff",
)


def drawn(format_name: str, seed: int) -> Case:
    """Return the case of a format that a seed gives."""
    source = random.Random(f"{format_name} {seed}")
    tape = _tape(source)
    history = build(Recipe(format=format_name, tape=tape, text=_text(source)))
    uniform = source.random() < 0.75
    setup = source.randbytes(SETUP_BYTES) if uniform else _sparse(source, SETUP_BYTES)
    return Case(history, setup)


def _tape(source: random.Random) -> bytes:
    """Return a tape of one of the kinds that a shrinker or a mutator would also come to."""
    kind = source.choices(tuple(_KINDS), weights=tuple(_KINDS.values()))[0]
    size = TAPE_BYTES
    if source.random() < 0.25:
        # A tape that has run out goes on with zeros, the simplest choice.
        size = source.randint(_SHORTEST_TAPE, TAPE_BYTES)
    return kind(source, size)


def _uniform(source: random.Random, size: int) -> bytes:
    return source.randbytes(size)


def _sparse(source: random.Random, size: int) -> bytes:
    """Return mostly zeros: a simple history with a few odd places."""
    share = source.choice((0.5, 0.8, 0.95))
    tape = bytearray(source.randbytes(size))
    for at in range(size):
        if source.random() < share:
            tape[at] = 0
    # Zero steps would make most of these the same empty history.
    for at in range(min(6, size)):
        tape[at] = tape[at] or source.randrange(256)
    return bytes(tape)


def _narrow(source: random.Random, size: int) -> bytes:
    """Return a few values over and over: one kind of step throughout, common or rare."""
    values = source.randbytes(source.randint(1, 4)) + bytes((15, 255))
    return bytes(source.choices(values, k=size))


def _periodic(source: random.Random, size: int) -> bytes:
    """Return a piece that repeats, with one byte changed: steps that are copies of each other."""
    piece = source.randbytes(source.randint(2, 40))
    tape = bytearray((piece * (size // len(piece) + 1))[:size])
    tape[source.randrange(size)] = source.randrange(256)
    return bytes(tape)


_KINDS: Mapping[Callable[[random.Random, int], bytes], int] = MappingProxyType(
    {_uniform: 10, _sparse: 4, _narrow: 3, _periodic: 3}
)
"""The kinds of tapes, and how many in twenty are of each."""


def _text(source: random.Random) -> str:
    if source.random() < 0.5:
        return ""
    alphabet = source.choice((*_ALPHABETS, "".join(_ALPHABETS)))
    return "".join(source.choices(alphabet, k=source.randint(1, _LONGEST_TEXT)))
