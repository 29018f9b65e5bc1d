"""Savings of an edit in shadow mode, from the bill of the unedited call."""

from agora import Compression, PriceSheet, Reason
from agora.formats.usage import Usage
from agora.savings import in_dollars


def would_save(sheet: PriceSheet, usage: Usage, compression: Compression) -> float:
    """Return the dollars that the edit would have saved on a call.

    An edited prompt that continues the one before it would have missed the cache with the same
    tokens, its newest. A prompt with a new edit is assumed to be written from its beginning on.

    >>> from agora import FallbackLevel, State
    >>> sheet = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=0)
    >>> usage = Usage(read=29_000, written=1_000)
    >>> edit = Compression(messages=[], reason=Reason.SHADOW, tokens_before=30_000,
    ...     tokens_after=10_000, fallback_level=FallbackLevel.NONE, state=State(is_new=True))
    >>> round(would_save(sheet, usage, edit), 6)
    -0.00835
    """
    whole = usage.prompt
    if compression.reason is not Reason.SHADOW or not whole or not compression.tokens_before:
        return 0.0
    sheet = sheet.as_billed(usage.written, usage.written_1h)
    short = whole * compression.tokens_after / compression.tokens_before
    missed = usage.uncached + usage.written
    cost = usage.uncached + usage.written * sheet.write + usage.read * sheet.read
    price = (usage.uncached + usage.written * sheet.write) / missed if missed else sheet.write
    continues = compression.state is not None and not compression.state.is_new
    cached = usage.read and short >= sheet.minimum_prefix
    missed_short = min(short, missed) if continues and cached else short
    would_cost = missed_short * price + (short - missed_short) * sheet.read
    output = usage.output
    return in_dollars(sheet, cost, whole, output) - in_dollars(sheet, would_cost, short, output)
