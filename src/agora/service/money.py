"""Dollars spent, from the provider's usage, and dollars saved, an estimate based on it.

The estimate compares a call with the one that would have been made had nothing ever been edited.
Its size is known in the provider's own tokens. It grows from call to call as the edited prompt
does, and at a call that makes an edit by our count of what is new, scaled to the provider's.
"""

from agora.core.prices import PriceSheet
from agora.formats.usage import Usage
from agora.service.call import Edited
from agora.service.memory import Paid


def spent(sheet: PriceSheet, usage: Usage) -> float:
    """Return the dollars that a call cost by its price sheet.

    >>> sheet = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=10.0)
    >>> spent(sheet, Usage(uncached=500_000, read=1_000_000, output=10_000))
    0.7
    """
    return sheet.as_billed(usage.written, usage.written_1h).dollars(
        uncached=usage.uncached, read=usage.read, written=usage.written, output=usage.output
    )


def saved(
    sheet: PriceSheet, usage: Usage, edited: Edited, now: float, newest: Paid | None = None
) -> tuple[float, Paid]:
    """Return the dollars that a call cost less than without edits, and what to remember of it.

    Where a call continues the prompt before it, what was removed would have been read from the
    cache or missed it, as the rest did. Where an edit was made or left out again, the prompt would
    have continued: everything but what is new read from a cache that is still there. So an edit
    shows as the loss that it first is, and its gain comes with the calls after it.

    Args:
        sheet: The prices of its model.
        usage: What the provider reported.
        edited: What went out.
        now: When the answer ended, by a monotonic clock.
        newest: The newest call of its conversation. If that is not the call before it, the client
            has written its history anew, and no cache would have that.
    """
    sheet = sheet.as_billed(usage.written, usage.written_1h)
    last = edited.before.paid if edited.before else None
    continues = _continues(usage, edited)
    paid = _paid(usage, edited, last, newest, continues=continues)._replace(at=now)
    whole, removed = paid.whole, paid.whole - usage.prompt
    if not usage.prompt or (edited.edit is None and continues):
        return 0.0, paid
    uncached = _uncached_price(sheet, usage)
    cost = usage.uncached * (1.0 if usage.written else uncached)
    cost += usage.read * sheet.read + usage.written * sheet.write
    shrunk_out_of_cache = usage.prompt < sheet.minimum_prefix <= whole and not usage.read
    if continues and not shrunk_out_of_cache:
        would_cost = cost + removed * (sheet.read if usage.read else uncached)
    else:
        new = max(0.0, whole - last.whole) if last else 0.0
        if last is None and newest is not None:
            new = whole - usage.read
        warm = last is None or now - last.at <= sheet.ttl_seconds
        cached = sheet.read if warm and whole >= sheet.minimum_prefix else uncached
        would_cost = (whole - new) * cached + new * uncached
    would = in_dollars(sheet, would_cost, whole, usage.output)
    return would - in_dollars(sheet, cost, usage.prompt, usage.output), paid


def in_dollars(sheet: PriceSheet, cost: float, prompt: float, output: float) -> float:
    """Return the dollars of a call from its `cost` in tokens at the price of plain input.

    `prompt` is the size that decides the tier, of the output's price too.
    """
    tier = sheet.tier(prompt)
    dollars = cost * sheet.input * tier.input + output * sheet.output * tier.output
    return dollars / 1_000_000


def _continues(usage: Usage, edited: Edited) -> bool:
    """Return True if a call's prompt continues that of the call before it."""
    if edited.before is None and edited.edit is not None:
        # A provider that has most of it in its cache has seen it before.
        return 2 * usage.read > usage.prompt
    before = edited.before.edit if edited.before else None
    return (before and before.key) == (edited.edit and edited.edit.key)


def _paid(
    usage: Usage, edited: Edited, last: Paid | None, newest: Paid | None, *, continues: bool
) -> Paid:
    """Return the size of a call, its unedited prompt in the provider's tokens included."""
    prompt, tokens = float(usage.prompt), float(edited.tokens_before)
    if last is None:
        known = newest or Paid(0.0, 0.0, 0.0, 0.0)
        scale = known.scale or (prompt / edited.tokens_after if edited.tokens_after else 0.0)
        removed = tokens - edited.tokens_after if edited.edit is not None else 0.0
        whole = prompt + max(0.0, removed) * scale
        return known._replace(prompt=prompt, whole=whole, tokens=tokens)
    scale = last.scale or (newest.scale if newest else 0.0)
    scale = scale or (last.prompt / last.tokens if last.tokens else 0.0)
    if continues:
        grown = max(0.0, prompt - last.prompt)
        whole = last.whole + grown
    else:
        grown = max(0.0, tokens - last.tokens) * scale if last.tokens else 0.0
        whole = prompt if edited.edit is None else max(prompt, last.whole + grown)
    if not (continues and tokens and last.tokens):
        # Nothing is learned of the scale; a prompt that nobody counted is taken to have its size.
        tokens = tokens or (whole / scale if scale else 0.0)
        return last._replace(prompt=prompt, whole=whole, tokens=tokens)
    grown_by_us = last.grown_by_us + max(0.0, tokens - last.tokens)
    return Paid(prompt, whole, tokens, 0.0, last.grown + grown, grown_by_us)


def _uncached_price(sheet: PriceSheet, usage: Usage) -> float:
    """Return the price of what was not read from the cache, as a ratio to plain input."""
    if usage.written:
        return sheet.write
    # Some providers write whatever they can, bill for it and do not report it.
    by_itself = not sheet.breakpoints and usage.prompt >= sheet.minimum_prefix
    return sheet.write if by_itself else 1.0
