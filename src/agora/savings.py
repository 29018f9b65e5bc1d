"""Savings in dollars and tokens, by the provider's own usage."""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agora.core.compression import Compression, Reason
from agora.core.memo import Memo
from agora.core.model_names import bare_name
from agora.core.prices import UNKNOWN, PriceSheet, sheet_for, shipped_sheets
from agora.errors import SettingError, nearest, type_name
from agora.formats.usage import Usage

_log = logging.getLogger("agora.savings")
_warned: set[str] = set()
LEDGER = "agora_ledger"
"""The attribute under which clients and integrations keep their `Ledger`."""
_MOST_CONVERSATIONS = 256
_FIRST = 3
"""The messages that identify a conversation: system text, task and the first answer. A conversation
that begins with known words of the user and another answer was written anew by its client."""


@dataclass(frozen=True, slots=True)
class Savings:
    """The sums over all answered calls of a client or an integration.

    >>> print(Savings(12, 9, dollars=1.2399, spent=4.5, tokens=34_000, prompt_tokens=46_000))
    12 calls, 9 shortened: saved about $1.23 (spent $4.50), about 34,000 fewer prompt tokens
    """

    calls: int = 0
    shortened: int = 0
    dollars: float = 0.0
    """Estimated. Below zero while edits have cost more than they saved."""
    spent: float = 0.0
    """By the usage that the provider reported and the model's price sheet."""
    tokens: int = 0
    """The prompt tokens that were not sent: an estimate, in the provider's tokens."""
    prompt_tokens: int = 0
    """The prompt tokens that were sent, as the provider counted them."""
    unpriced: int = 0
    """The calls without reported usage, or to a model without known prices."""
    shadow: bool = False
    """True if nothing was edited: then these are the savings that edits would have made."""

    def __str__(self) -> str:
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        would = "would have " if self.shadow else ""
        verb = ("would have been " if self.shadow else "") + "shortened"
        if self.calls and self.unpriced == self.calls:
            money = "dollars unknown (no usage or no known price)"
        elif self.dollars < 0:
            cost = "cost" if not self.shadow else "have cost"
            money = f"{would.removesuffix('have ')}{cost} about {_dollars(-self.dollars)} more"
        else:
            money = f"{would}saved about {_dollars(self.dollars)}"
        spent = f" (spent {_dollars(self.spent)})" if self.spent else ""
        fewer = f"about {self.tokens:,} fewer prompt tokens"
        some = f"; {self.unpriced:,} of the calls without a price" if self.unpriced else ""
        return f"{calls}, {self.shortened:,} {verb}: {money}{spent}, {fewer}{some}"


def _dollars(amount: float) -> str:
    digits = 2 if amount >= 1 else 4
    return f"${math.floor(amount * 10**digits + 1e-9) / 10**digits:.{digits}f}"


class Paid(NamedTuple):
    """The size of a conversation's last answered call."""

    prompt: float
    """As the provider counted it."""
    whole: float
    """The size it would have had without any edit, in the provider's tokens."""
    tokens: float
    """The whole prompt by our own count."""
    at: float
    """When the answer came, by a monotonic clock."""
    edit: int
    """How many steps its edit looked at; 0 for an unedited call."""
    grown: float = 0.0
    """The total growth of prompts that continued the previous one, in tokens."""
    grown_by_us: float = 0.0
    """The same by our own count."""


class Sent(NamedTuple):
    """The sizes of a call, by our own count."""

    before: float
    after: float
    edit: int
    """How many steps its edit looked at; 0 for an unedited call."""


def price_call(
    sheet: PriceSheet,
    usage: Usage,
    sent: Sent,
    last: Paid | None,
    now: float,
    *,
    rewritten: bool = False,
) -> tuple[float, Paid]:
    """Return the dollars that a call cost less than without edits, and its sizes.

    A call that continues the one before it would have read the removed part from the cache, as it
    read the rest. A call with a new edit would have read everything but its new text. So an edit
    first shows as a loss, and its gain comes with the calls after it.

    With `rewritten` the client wrote the history anew: no cache would have had it without edits.
    """
    sheet = sheet.as_billed(usage.written, usage.written_1h)
    paid = _sizes(usage, sent, last, now)
    removed = paid.whole - usage.prompt
    continues = last is None or last.edit == sent.edit
    if not usage.prompt or (not sent.edit and continues):
        return 0.0, paid
    uncached = sheet.write if usage.written or _writes_unasked(sheet, usage) else 1.0
    cost = usage.uncached * (1.0 if usage.written else uncached)
    cost += usage.read * sheet.read + usage.written * sheet.write
    if continues and (last is not None or 2 * usage.read > usage.prompt):
        without = cost + removed * (sheet.read if usage.read else uncached)
    else:
        new = max(0.0, paid.whole - last.whole) if last else 0.0
        if last is None and rewritten:
            new = paid.whole - usage.read
        warm = last is None or now - last.at <= sheet.ttl_seconds
        cached = sheet.read if warm and paid.whole >= sheet.minimum_prefix else uncached
        without = (paid.whole - new) * cached + new * uncached
    more = in_dollars(sheet, without, paid.whole, usage.output)
    return more - in_dollars(sheet, cost, usage.prompt, usage.output), paid


def _sizes(usage: Usage, sent: Sent, last: Paid | None, now: float) -> Paid:
    prompt = float(usage.prompt)
    scale = prompt / sent.after if sent.after else 0.0
    if last is None:
        whole = prompt + max(0.0, sent.before - sent.after) * scale
        return Paid(prompt, whole, sent.before, now, sent.edit)
    if last.edit == sent.edit:
        grown = max(0.0, prompt - last.prompt)
        grown_by_us = max(0.0, sent.before - last.tokens)
        return Paid(
            prompt,
            last.whole + grown,
            sent.before,
            now,
            sent.edit,
            last.grown + grown,
            last.grown_by_us + grown_by_us,
        )
    # Text of steps has another scale than system text and tools.
    scale = last.grown / last.grown_by_us if last.grown_by_us else scale
    whole = last.whole + max(0.0, sent.before - last.tokens) * scale
    whole = max(prompt, whole) if sent.edit else prompt
    return last._replace(prompt=prompt, whole=whole, tokens=sent.before, at=now, edit=sent.edit)


def _writes_unasked(sheet: PriceSheet, usage: Usage) -> bool:
    """Return True if the provider writes to its cache, bills that and does not report it."""
    return not sheet.breakpoints and usage.prompt >= sheet.minimum_prefix


def call_dollars(sheet: PriceSheet, usage: Usage) -> float:
    """Return the dollars that a call cost by its price sheet.

    >>> sheet = PriceSheet(name="s", input=1.0, read=0.1, write=1.25, output=10.0)
    >>> call_dollars(sheet, Usage(uncached=500_000, read=1_000_000, output=10_000))
    0.7
    """
    return sheet.as_billed(usage.written, usage.written_1h).dollars(
        uncached=usage.uncached, read=usage.read, written=usage.written, output=usage.output
    )


def warn_unknown(model: str) -> None:
    """Warn once of a model without a price sheet, and name the nearest one."""
    if model in _warned or sheet_for(model).name != UNKNOWN:
        return
    _warned.add(model)
    _log.warning(
        "no prices are known for the model %r%s: edits are assumed to be expensive, and no dollars"
        " are counted; give its prices as Compressor(sheet=PriceSheet(...))",
        model,
        nearest(bare_name(model), shipped_sheets()),
    )


def in_dollars(sheet: PriceSheet, cost: float, prompt: float, output: float) -> float:
    """Return the dollars of a call from its `cost` in tokens at the price of plain input.

    `prompt` is the size that decides the tier, of the output's price too.
    """
    tier = sheet.tier(prompt)
    return (cost * sheet.input * tier.input + output * sheet.output * tier.output) / 1_000_000


class Ledger:
    """Sums up the savings while calls are answered, in any thread."""

    def __init__(self, *, shadow: bool = False, clock: Callable[[], float] = time.monotonic):
        self.savings = Savings(shadow=shadow)
        self._clock = clock
        self._lock = threading.Lock()
        self._conversations: OrderedDict[int, Paid] = OrderedDict()
        self._begun: Memo[bool] = Memo(_MOST_CONVERSATIONS)
        """The first words of the user in these conversations."""

    def add(self, compression: Compression, usage: Usage | None, sheet: PriceSheet) -> None:
        """Add an answered call."""
        with self._lock:
            sums = self.savings
            shadow = compression.reason is Reason.SHADOW
            sums = replace(
                sums,
                calls=sums.calls + 1,
                shortened=sums.shortened + (compression.changed or shadow),
            )
            if usage is None:
                self.savings = replace(sums, unpriced=sums.unpriced + 1)
                return
            before, after = compression.tokens_before, compression.tokens_after
            edit = compression.last_edit if compression.changed else 0
            sent = Sent(before, after, edit)
            if shadow:
                sent = Sent(before, before, 0)
            messages = _messages(compression)
            conversation = hash(repr(messages[:_FIRST]))
            last = self._conversations.pop(conversation, None)
            began = hash(repr(next(filter(_is_users, messages), None)))
            saved, paid = price_call(
                sheet, usage, sent, last, self._clock(), rewritten=self._begun.get(began) is True
            )
            if len(messages) >= _FIRST:
                self._begun.put(began, True)
            self._conversations[conversation] = paid
            if len(self._conversations) > _MOST_CONVERSATIONS:
                self._conversations.popitem(last=False)
            tokens = paid.whole - paid.prompt
            if shadow and before:
                tokens = usage.prompt * (before - after) / before
                saved = tokens * sheet.input * (sheet.read if usage.read else 1.0) / 1_000_000
            known = sheet.name != UNKNOWN
            self.savings = replace(
                sums,
                dollars=sums.dollars + known * saved,
                spent=sums.spent + known * call_dollars(sheet, usage),
                tokens=sums.tokens + max(0, int(tokens)),
                prompt_tokens=sums.prompt_tokens + usage.prompt,
                unpriced=sums.unpriced + (not known),
            )


def _messages(compression: Compression) -> Sequence[Any]:
    messages = compression.request.messages if compression.request is not None else None
    return messages if isinstance(messages, list) else ()


def _is_users(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "user"


def savings(source: Any) -> Savings:
    """Return the savings so far of a wrapped client or an integration.

    Copies that a client's `with_options` makes count together with it. In shadow mode these are
    the savings that edits would have made.

    Args:
        source: The client that `agora.wrap` returned, or a middleware, filter, plugin, callback or
            model of `agora.integrations`.

    Raises:
        SettingError: It is neither.
    """
    middleware = getattr(source, "middleware", ())
    holders = [source, getattr(source, "_client", None)]
    holders += middleware if isinstance(middleware, tuple) else ()
    for holder in holders:
        ledger = getattr(holder, LEDGER, None)
        if isinstance(ledger, Ledger):
            return ledger.savings
    needed = "what agora.wrap(client) returned, or an integration's middleware, filter or model"
    raise SettingError("source", f"{type_name(source)}, which is not wrapped", needed)
