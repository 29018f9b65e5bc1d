"""Dollars of a call by the usage that its provider reported."""

from agora.core.prices import PriceSheet
from agora.formats.usage import Usage


def spent(sheet: PriceSheet, usage: Usage) -> float:
    """Return the dollars that a call cost by its price sheet.

    >>> sheet = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=10.0)
    >>> spent(sheet, Usage(uncached=500_000, read=1_000_000, output=10_000))
    0.7
    """
    return sheet.as_billed(usage.written, usage.written_1h).dollars(
        uncached=usage.uncached, read=usage.read, written=usage.written, output=usage.output
    )


def in_dollars(sheet: PriceSheet, cost: float, prompt: float, output: float) -> float:
    """Return the dollars of a call from its `cost` in tokens at the price of plain input.

    `prompt` is the size that decides the tier, of the output's price too.
    """
    tier = sheet.tier(prompt)
    dollars = cost * sheet.input * tier.input + output * sheet.output * tier.output
    return dollars / 1_000_000
