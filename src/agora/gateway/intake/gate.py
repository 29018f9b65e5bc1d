"""How much of the gateway one client may take: requests at a time, and requests a minute."""

import hmac
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

from agora.gateway.config import Client, Config
from agora.gateway.intake.refused import RefusedError
from agora.gateway.routing.routes import TOKEN, Header

_MAX_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    """What a tenant may still ask for, at a time."""

    left: float
    at: float


@dataclass(slots=True, kw_only=True)
class Gate:
    """The slots and the rates of one process, on its event loop."""

    config: Config
    clock: Callable[[], float]
    open: int = field(default=0, init=False)
    """Requests that hold a slot."""
    _tenants: Counter[str] = field(default_factory=Counter, init=False)
    _addresses: Counter[str] = field(default_factory=Counter, init=False)
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict, init=False)

    @property
    def full(self) -> bool:
        """Whether the next request would be refused, whoever sends it."""
        return self.open >= self.config.limits.concurrent

    def client_of(self, headers: list[Header]) -> Client | None:
        """Return the client whose token a request shows; None where none are asked for.

        Every hash is compared, and to its end: how long it takes tells nothing.

        Raises:
            RefusedError: it shows no token that is known.
        """
        if not self.config.clients:
            return None
        shown = b"".join(value for name, value in headers if name == TOKEN).strip()
        digest = sha256(shown).hexdigest()
        found: Client | None = None
        for client in self.config.clients:
            if hmac.compare_digest(client.sha256, digest):
                found = client
        if found is None:
            raise RefusedError(
                401,
                "token",
                "this gateway requires a token in the header x-agora-token"
                + ("; the one that was sent is unknown" if shown else ""),
            )
        return found

    def admit(self, visit: "Visit") -> None:
        """Take one request off the tenant's rate, and see whether there is a slot at all.

        Raises:
            RefusedError: the rate is used up, or there is none.
        """
        self._check(visit)
        rate = visit.rate
        if not rate:
            return
        now = self.clock()
        bucket = self._buckets.pop(visit.tenant, None) or _Bucket(self.config.tenants.burst, now)
        refilled = bucket.left + max(0.0, now - bucket.at) * rate / 60
        bucket.left, bucket.at = min(float(self.config.tenants.burst), refilled), now
        self._buckets[visit.tenant] = bucket
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if bucket.left < 1:
            raise RefusedError(
                429,
                "rate",
                f"more than {rate:,} requests a minute",
                retry_after=(1 - bucket.left) * 60 / rate,
            )
        bucket.left -= 1

    def take(self, visit: "Visit") -> None:
        """Give a slot to a request.

        Raises:
            RefusedError: there is none, or none for this client.
        """
        self._check(visit)
        self.open += 1
        self._tenants[visit.tenant] += 1
        self._addresses[visit.address] += 1

    def leave(self, visit: "Visit") -> None:
        """Take the slot back."""
        self.open -= 1
        for counts, name in ((self._tenants, visit.tenant), (self._addresses, visit.address)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]

    def _check(self, visit: "Visit") -> None:
        limits = self.config.limits
        if self.full:
            raise RefusedError(503, "overloaded", "too many concurrent requests")
        if self._tenants[visit.tenant] >= visit.most:
            message = f"more than {visit.most:,} concurrent requests from one tenant"
            raise RefusedError(429, "tenant_slots", message, retry_after=1)
        if self._addresses[visit.address] >= limits.per_address:
            message = f"more than {limits.per_address:,} concurrent requests from one address"
            raise RefusedError(429, "address_slots", message, retry_after=1)


@dataclass(slots=True, eq=False)
class Visit:
    """One request from its head to its end, and whether it holds a slot."""

    gate: Gate
    tenant: str
    address: str
    client: Client | None = None
    holds: bool = field(default=False, init=False)

    @property
    def most(self) -> int:
        """Requests at a time of its tenant."""
        if self.client is not None and self.client.concurrent:
            return self.client.concurrent
        return self.gate.config.per_tenant

    @property
    def rate(self) -> int:
        """Requests a minute of its tenant; 0 for as many as it likes."""
        if self.client is not None and self.client.requests_per_minute:
            return self.client.requests_per_minute
        return self.gate.config.tenants.requests_per_minute

    def take(self) -> None:
        """Take a slot, once the request is here."""
        if not self.holds:
            self.gate.take(self)
            self.holds = True

    def leave(self) -> None:
        """Give it back."""
        if self.holds:
            self.holds = False
            self.gate.leave(self)
