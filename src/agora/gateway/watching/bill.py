"""What a call cost, and what compressing saved on it."""

from dataclasses import dataclass

from agora.core.prices import PriceSheet


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """The tokens of one call as the provider reported them."""

    fresh: int = 0
    """Prompt tokens that came from no cache and went into none."""
    read: int = 0
    written: int = 0
    output: int = 0
    written_1h: int | None = None
    """What of `written` is kept for an hour; None where the provider does not say."""

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.fresh + self.read + self.written


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a request was sent with, by our own count of tokens."""

    tokens_in: int = 0
    """The prompt as received."""
    tokens_out: int = 0
    """The prompt as forwarded."""
    new_tokens: int = 0
    """What came since the last call of the conversation: no cache can have held it."""
    breaks: bool = False
    """Whether it does not continue what went before, by our doing: an edit was made or undone."""
    whole: float = 0.0
    """What the provider would have counted for the unedited prompt; 0 if unknown."""
    scale: float = 0.0
    """The provider's tokens for each of ours; 0 when that is not known."""
    arrived: int = 0
    """What was left out of the new tokens as they arrived, by our count."""
    warm: bool = True
    """Whether a cache would still have held everything before `new_tokens` without any edit."""


def net_saving(sheet: PriceSheet, billed: Billed, sent: Sent) -> float:
    """Return the dollars that a call cost less than it would have, had nothing ever been edited.

    What was billed is known; what would have been billed is not. Where we
    broke the prefix it is assumed to be the lowest possible: everything
    but what is new read from a warm cache. So an edit shows as the loss it first is, and
    so does an edited prompt that is sent whole, and what an edit earns comes in with the
    calls after it. Where what went on continues what went before, what was removed would
    have been read or missed as the rest was.

    >>> from dataclasses import replace
    >>> sheet = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=0)
    >>> later = Billed(read=9_000, written=1_000)
    >>> counts = Sent(tokens_in=30_000, tokens_out=10_000, new_tokens=1_000)
    >>> round(net_saving(sheet, later, counts), 6)
    0.002
    >>> edit = Billed(read=2_000, written=8_000)
    >>> round(net_saving(sheet, edit, replace(counts, breaks=True)), 6)
    -0.00605
    """
    removed_tokens = sent.tokens_in - sent.tokens_out
    if sent.tokens_out <= 0 or billed.prompt <= 0 or (removed_tokens <= 0 and not sent.breaks):
        return 0.0
    # Our counts are estimates. The provider's count of what it got says how far they are off.
    scale = sent.scale or billed.prompt / sent.tokens_out
    whole = max(billed.prompt, sent.whole or billed.prompt + max(0, removed_tokens) * scale)
    removed = whole - billed.prompt
    new = min(sent.new_tokens * scale, whole)
    uncached = uncached_price(sheet, billed)
    cost = billed.fresh * (1.0 if billed.written else uncached)
    cost += billed.read * sheet.read + billed.written * sheet.write
    shrunk_out_of_the_cache = billed.prompt < sheet.minimum_prefix <= whole
    if sent.breaks or (not billed.read and shrunk_out_of_the_cache):
        cached = sheet.read if whole >= sheet.minimum_prefix else 1.0
        would_cost = (whole - new) * (cached if sent.warm else uncached) + new * uncached
    else:
        # What was left out as it arrived would have been written now, and not read.
        arrived = min(removed, sent.arrived * scale)
        would_cost = cost + arrived * uncached
        would_cost += (removed - arrived) * (sheet.read if billed.read else uncached)
    return in_dollars(sheet, would_cost, whole, billed.output) - in_dollars(
        sheet, cost, billed.prompt, billed.output
    )


def in_dollars(sheet: PriceSheet, cost: float, prompt: float, output: float) -> float:
    """Return the dollars of a call from its `cost` in tokens at the price of plain input.

    `prompt` is the size that decides the tier, also that of the output.
    """
    tier = sheet.tier(prompt)
    dollars = cost * sheet.input * tier.input + output * sheet.output * tier.output
    return dollars / 1_000_000


def uncached_price(sheet: PriceSheet, billed: Billed) -> float:
    """Return the price of what was not read from the cache, as a ratio to plain input."""
    if billed.written:
        return sheet.write
    # Some providers write whatever they can, bill for it and do not report it.
    by_itself = not sheet.breakpoints and billed.prompt >= sheet.minimum_prefix
    return sheet.write if by_itself else 1.0
