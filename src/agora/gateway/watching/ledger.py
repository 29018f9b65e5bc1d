"""When compressing stops for a tenant that it costs money."""

from collections import OrderedDict
from dataclasses import dataclass

from agora.gateway.config import Tenants

_BUCKETS = 10
"""Parts of a window: its sum is exact whenever one of them fills, and no request is stored."""


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
