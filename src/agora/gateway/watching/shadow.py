"""What an edit that was not made would have saved, from the bill of the call that was."""

from array import array
from dataclasses import dataclass

from agora.core.prices import PriceSheet
from agora.gateway.watching.bill import Billed, in_dollars, uncached_price

BLOCK_BYTES = 1 << 8
"""How finely two bodies are compared; about 60 tokens. At 1,024 bytes each edit seemed to cost 130
tokens more than it does, one per cent of what short sessions save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Would:
    """A call as it would have been sent."""

    tokens_before: int
    tokens_after: int
    bytes_before: int = 0
    bytes_after: int = 0
    breaks: bool = False
    """Whether it would not have continued what would have been sent before it."""
    shared: float = 1.0
    """The share of it that a cache would have known from the call before, where it breaks."""

    @property
    def left(self) -> float:
        """The share of the provider's tokens that an edit would have left.

        Our count of tokens takes the lines of elided steps for longer than they are, a count of
        bytes for shorter. Against a real tokenizer each is off by two percent and their mean by
        less than half of one (`python -m benchmarks.shadow`).
        """
        left = self.tokens_after / self.tokens_before
        return (left + self.bytes_after / self.bytes_before) / 2 if self.bytes_before else left


def blocks_of(body: bytes) -> "array[int]":
    """Return the digests of a body, block by block; nothing can be read from them."""
    view = memoryview(body)
    return array(
        "q", (hash(view[at : at + BLOCK_BYTES]) for at in range(0, len(body), BLOCK_BYTES))
    )


def shared_bytes(before: "array[int]", now: "array[int]") -> int:
    """Return how many bytes two bodies have in common from their beginning, to the block.

    >>> shared_bytes(blocks_of(b"a" * 3_000), blocks_of(b"a" * 2_500 + b"b" * 500))
    2304
    """
    same = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        same += 1
    return same * BLOCK_BYTES


def predicted_saving(sheet: PriceSheet, billed: Billed, would: Would) -> float:
    """Return the dollars that a call would have cost less with the edit that was not made.

    The bill of the whole prompt says how many of its tokens the provider missed. An edited prompt
    that continues the one before it would have missed the same ones, its newest. One that breaks
    would have missed all behind what the two share. A cache that was cold would have been cold.

    >>> sheet = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=0)
    >>> billed = Billed(read=29_000, written=1_000)
    >>> later = Would(tokens_before=30_000, tokens_after=10_000)
    >>> round(predicted_saving(sheet, billed, later), 6)
    0.002
    >>> edit = Would(tokens_before=30_000, tokens_after=10_000, breaks=True, shared=0.2)
    >>> round(predicted_saving(sheet, billed, edit), 6)
    -0.00605
    """
    whole = billed.prompt
    if not whole or would.tokens_before <= 0:
        return 0.0
    edited = whole * would.left
    uncached = uncached_price(sheet, billed)
    missed_whole = billed.fresh + billed.written
    cost = billed.fresh * (1.0 if billed.written else uncached) + billed.written * sheet.write
    price = cost / missed_whole if missed_whole else uncached
    cost += billed.read * sheet.read
    if edited < sheet.minimum_prefix or not billed.read:
        missed = edited
    elif would.breaks:
        missed = edited - min(edited * would.shared, billed.read)
    else:
        missed = min(edited, missed_whole)
    would_cost = missed * price + (edited - missed) * sheet.read
    return in_dollars(sheet, cost, whole, billed.output) - in_dollars(
        sheet, would_cost, edited, billed.output
    )
