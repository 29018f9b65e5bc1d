"""Count the tokens of a text, with the caller's tokenizer or by an estimate from its characters."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

MESSAGE_TOKENS = 4
"""Tokens of a message's role and frame, besides its text."""
CALL_TOKENS = 8
"""Tokens of a tool call's frame, besides its name and arguments."""
IMAGE_TOKENS = 1_000
"""The assumed cost of an image. Providers charge by its size in pixels, never by its base64."""
FILE_TOKENS = 2_000
"""The assumed cost of an attached file or sound, whatever the size of its encoding."""


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`: 0 for no text, never negative."""
        ...


@dataclass(frozen=True, slots=True)
class Characters:
    """Counts characters, the unit of the paper."""

    def count(self, text: str) -> int:
        """Return the number of characters in `text`.

        >>> Characters().count("look around")
        11
        """
        return len(text)


# The estimate: a token begins where the kind of character changes. Each class of bytes has a code
# of eight bits. The lower seven count where they differ from the byte before, so the number of bits
# in which two codes differ is the cost of going from one class to the other; the highest bit
# counts for every byte that has it. The first is a distance, and a byte always adds something of
# its own. So no text is estimated below a part of it, and no two texts together above their sum.
# (Exceptions are texts like "0A0A", which are capped at the number of their bytes.)
# Python's long integers do this for a whole block at once. A loop over characters or a regular
# expression would take far longer than reading the JSON.
#
# Codes and coefficients were fitted to o200k_base.


def _table(*rows: tuple[int, Iterable[int]]) -> bytes:
    table = bytearray(256)
    for value, members in rows:
        for member in members:
            table[member] = value
    return bytes(table)


_CODES = _table(
    (0b00000000, range(33)),
    (0b01101100, b"\n\r"),
    (0b00000011, b"abcdefghijklmnopqrstuvwxyz"),
    (0b10001000, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    (0b11111011, b"0123456789"),
    (0b00101000, b"!#$%&)*+,:;=>?@\\]^|}~\x7f"),
    (0b10101001, b"\"'`"),
    (0b00001010, b"_"),
    (0b00001001, b"([{<"),
    (0b01101001, b"./-"),
)
"""The code of a byte. A space is 0, and so is the edge of a text and all that is not ASCII."""

_SCRIPTS = _table(
    (63, range(0xC2, 0xC3)),  # signs of Latin-1
    (12, range(0xC3, 0xC4)),  # its accented letters
    (51, range(0xC4, 0xCC)),  # further Latin letters
    (18, range(0xCC, 0xCE)),  # combining accents
    (11, range(0xCE, 0xD0)),  # Greek
    (8, range(0xD0, 0xD4)),  # Cyrillic
    (13, range(0xD4, 0xD8)),  # Hebrew
    (10, range(0xD8, 0xE0)),  # Arabic
    (10, range(0xE0, 0xE1)),  # Indic scripts, Thai
    (8, range(0xE1, 0xE2)),  # Vietnamese, many small scripts
    (21, range(0xE2, 0xE3)),  # typography, arrows, boxes
    (20, range(0xE3, 0xE4)),  # kana
    (21, range(0xE4, 0xEA)),  # Han
    (21, range(0xEA, 0xEE)),  # Hangul
    (8, range(0xEE, 0xF0)),  # full-width forms
    (59, range(0xF0, 0x100)),  # emoji
)
"""The weight of a character outside ASCII, in 1/32 token, by its first byte in UTF-8."""

_UNIT = 1024
_BIT, _BYTE, _SCRIPT = 218, 21, 32
"""The weights of a counted bit, a byte and 1/32 of a script's token, in 1/1024 token."""

_BLOCK = 1 << 16
"""Bytes at a time: few enough to stay in the processor's cache."""
_CHANGING = int.from_bytes(b"\x7f" * _BLOCK, "little") << 8
"""The bits of the byte before that are compared: all but the highest."""
_SUM = 1 << 10
"""Bytes whose script weights, at most 63 each, add up to less than the modulus of Adler-32."""


@dataclass(frozen=True, slots=True)
class EstimatedTokens:
    """Estimates the count of a byte-pair tokenizer, within about 15%, from characters alone.

    For when there is no tokenizer: no vocabulary, no regular expression, the
    same integer on every machine, in linear time. A text never counts less than
    a part of it, and counts what its parts do together or a few tokens less for
    each cut. How a given provider's tokenizer differs is mostly one constant.
    """

    def count(self, text: str) -> int:
        """Return the estimated number of tokens: 0 for no text, otherwise at least 1.

        >>> EstimatedTokens().count("The harbour office opens at six.")
        8
        """
        if not text:
            return 0
        # Half a surrogate pair cannot be sent, but it can be read from JSON: it must not fail here.
        raw = text.encode("utf-8", "surrogatepass")
        size = len(raw)
        if size <= _BLOCK:
            codes = int.from_bytes(raw.translate(_CODES), "little")
            bits = (codes ^ codes << 8 & _CHANGING).bit_count()
        else:
            bits = _bits(raw)
        cost = _BIT * bits + _BYTE * size
        if size != len(text):
            cost += _SCRIPT * _script_weight(raw)
        # No tokenizer of bytes makes more tokens than there are bytes.
        return min((cost + _UNIT // 2) // _UNIT or 1, size)


def _bits(raw: bytes) -> int:
    """Return the counted bits of `raw`, block by block, the same as of one block of any size."""
    bits = 0
    for start in range(0, len(raw), _BLOCK):
        block = raw[start : start + _BLOCK].translate(_CODES)
        codes = int.from_bytes(block, "little")
        bits += (codes ^ codes << 8 & _CHANGING).bit_count()
        if start:
            # Each side of a cut was compared with the edge of a text: compare them instead.
            before, after = _CODES[raw[start - 1]] & 0x7F, block[0] & 0x7F
            bits += (before ^ after).bit_count() - before.bit_count() - after.bit_count()
    return bits


def _script_weight(raw: bytes) -> int:
    """Return the sum of the script weights of `raw`: the lower half of Adler-32 sums bytes."""
    weights = memoryview(raw.translate(_SCRIPTS))
    return sum(
        zlib.adler32(weights[start : start + _SUM], 0) & 0xFFFF
        for start in range(0, len(weights), _SUM)
    )
