"""Whom compressing pays for: who a request is from, what it saved them, and when to stop."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from agora.core.prices import PriceSheet
from agora.gateway.config import Tenants

ANONYMOUS = "anonymous"
"""The tenant of requests that carry no key."""
_KEY_HEADERS = (b"x-api-key", b"api-key", b"x-goog-api-key")
_BUCKETS = 10
"""Parts of a window: its sum is exact whenever one of them fills, and no request is stored."""


def tenant_of(headers: Iterable[tuple[bytes, bytes]], settings: Tenants, secret: bytes) -> str:
    """Return the name of the tenant a request is from, which tells nothing about its key.

    The name is the header that `settings` trusts, if it has a plain name in
    it, and otherwise a keyed hash of the API key: without `secret` nobody can
    try out whether a key they know is behind a name.

    >>> tenant_of([(b"authorization", b"Bearer sk-1")], Tenants(), b"secret")
    't-a2de379d1f7a'
    >>> tenant_of([(b"x-api-key", b"sk-1")], Tenants(), b"secret")
    't-a2de379d1f7a'
    >>> tenant_of([], Tenants(), b"secret")
    'anonymous'
    """
    trusted = settings.header.encode("ascii") if settings.header else None
    key = b""
    for name, value in headers:
        lower = name.lower()
        if lower == trusted and value.strip():
            return _plain(value.strip()) or _hashed(b"header", value.strip(), secret)
        if lower == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            key = rest.strip() or scheme
        elif lower in _KEY_HEADERS and not key:
            key = value.strip()
    return _hashed(b"key", key, secret) if key else ANONYMOUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """The tokens of one call as the provider reported them."""

    fresh: int = 0
    """Prompt tokens that came from no cache and went into none."""
    read: int = 0
    written: int = 0
    output: int = 0

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
        would_cost = cost + removed * (sheet.read if billed.read else uncached)
    return (would_cost - cost) * sheet.input / 1_000_000


@dataclass(frozen=True, slots=True)
class Account:
    """What compressing saved one tenant over the last requests, and whether it rests."""

    full: tuple[float, ...] = ()
    """Dollars of the parts of the window that are full, oldest first."""
    dollars: float = 0.0
    """Dollars of the part that is being filled."""
    requests: int = 0
    """Requests in that part."""
    rests_until: float | None = None
    rests: int = 0
    """Stand-downs without a good window between them."""

    def may_compress(self, now: float) -> bool:
        """Return whether the tenant's requests are compressed at this time."""
        return self.rests_until is None or now >= self.rests_until

    def add(self, dollars: float, now: float, settings: Tenants) -> "Account":
        """Return the account after one more request that was billed.

        A negative sum over a whole window is a stand-down; the window after it
        starts empty. One that is not negative forgives the stand-downs before.
        """
        if not self.may_compress(now):
            # Sent before the stand-down and billed after it: the window is closed.
            return self
        account = self if self.rests_until is None else Account(rests=self.rests)
        dollars, requests = account.dollars + dollars, account.requests + 1
        if requests < max(1, settings.window_requests // _BUCKETS):
            return Account(account.full, dollars, requests, None, account.rests)
        full = (*account.full, dollars)[-_BUCKETS:]
        if len(full) < _BUCKETS:
            return Account(full, rests=account.rests)
        if sum(full) >= 0:
            return Account(full=full)
        rest = min(settings.rest_seconds * 2 ** min(self.rests, 60), settings.longest_rest_seconds)
        return Account(rests_until=now + rest, rests=self.rests + 1)


class Ledger:
    """The accounts of the tenants seen last. One process keeps it, on its event loop, in memory.

    It may be lost at any time: a tenant then gets a new window.
    """

    def __init__(self, settings: Tenants, *, most: int = 10_000) -> None:
        self._settings = settings
        self._most = most
        self._accounts: OrderedDict[str, Account] = OrderedDict()

    def may_compress(self, tenant: str, now: float) -> bool:
        """Return whether the tenant's requests are compressed; those of a new one are."""
        if not self._settings.stand_down:
            return True
        account = self._accounts.get(tenant)
        return account is None or account.may_compress(now)

    def add(self, tenant: str, dollars: float, now: float) -> bool:
        """Take in what a request saved; return whether the tenant stands down from now on.

        Take in every request that was billed, with 0 where nothing was elided.
        """
        before = self._accounts.pop(tenant, Account())
        after = before.add(dollars, now, self._settings)
        self._accounts[tenant] = after
        if len(self._accounts) > self._most:
            self._accounts.popitem(last=False)
        return (
            self._settings.stand_down and before.may_compress(now) and not after.may_compress(now)
        )

    def settle(self, settings: Tenants) -> None:
        """Go on with other settings; accounts stay as they are."""
        self._settings = settings

    def resting(self, now: float) -> int:
        """Return how many tenants stand down."""
        if not self._settings.stand_down:
            return 0
        return sum(not account.may_compress(now) for account in self._accounts.values())


def uncached_price(sheet: PriceSheet, billed: Billed) -> float:
    """Return the price of what was not read from the cache, as a ratio to plain input."""
    if billed.written:
        return sheet.write
    # Some providers write whatever they can, bill for it and do not report it.
    by_itself = not sheet.breakpoints and billed.prompt >= sheet.minimum_prefix
    return sheet.write if by_itself else 1.0


def _plain(value: bytes) -> str:
    """Return a name that is fit for a label, or nothing."""
    text = value.decode("latin-1")
    fits = len(text) <= 64 and all(c.isascii() and (c.isalnum() or c in "._-") for c in text)
    return text if fits else ""


def _hashed(kind: bytes, value: bytes, secret: bytes) -> str:
    # 48 bits tell a million tenants apart, and give nothing to start from without the secret.
    return "t-" + blake2b(kind + b"\0" + value, key=_key(secret), digest_size=6).hexdigest()


@lru_cache(maxsize=4)
def _key(secret: bytes) -> bytes:
    # A key of BLAKE2 has at most 64 bytes; what is longer is hashed, as HMAC does.
    return secret if len(secret) <= 64 else blake2b(secret).digest()
