"""Everything that the requests of one process share."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from agora.core.prices import PriceSheet
from agora.experiment.trial import Trial
from agora.gateway.config import Config, Upstream
from agora.gateway.editing.job import Edited, Job
from agora.gateway.editing.pool import Pool
from agora.gateway.editing.refusals import Refusals
from agora.gateway.editing.thinking import HeldThinking
from agora.gateway.editing.workers import Editing
from agora.gateway.intake.bodies import Bodies
from agora.gateway.routing.upstreams import Client
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.journal import Journal
from agora.gateway.watching.ledger import Ledger
from agora.gateway.watching.logs import log_exchange
from agora.gateway.watching.metrics import Meter
from agora.gateway.watching.report import Reporter

_LINES_AT_ONCE = 64
_LINES_AFTER_S = 0.1


@dataclass(slots=True, kw_only=True)
class Forwarder:
    """Everything that exchanges share. One for each process, on its event loop."""

    config: Config
    client: Client
    editing: Editing
    meter: Meter
    ledger: Ledger
    secret: bytes
    bodies: Bodies
    reporter: Reporter | None = None
    journal: Journal | None = None
    trial: Trial | None = None
    """The experiment that runs, if one does."""
    clock: Callable[[], float] = time.monotonic
    rules: Refusals = field(default_factory=Refusals)
    """Whose edits are held back because others like them were refused."""
    thinking: HeldThinking = field(default_factory=HeldThinking)
    """What of a model's own thinking still holds, where it is bound to the prefix."""
    sheet_of: Callable[[Upstream, str | None], PriceSheet] = field(init=False)
    also: frozenset[bytes] = field(init=False)
    """Headers that the configuration forwards."""
    without: frozenset[bytes] = field(init=False)
    shadow: bool = field(init=False)
    """Whether edits are decided on and not made."""
    shadow_config: Config = field(init=False)
    """The configuration for what is decided so, whatever the rest is."""
    undecided: set["asyncio.Task[None]"] = field(default_factory=set, init=False)
    """Exchanges in shadow that are over, and whose edit is still being worked out."""
    settling: dict[str, "asyncio.Task[None]"] = field(default_factory=dict, init=False)
    """Of those, the newest of each tenant."""
    untold: list[Exchange] = field(default_factory=list, init=False)
    """Exchanges whose lines are not written yet."""

    def __post_init__(self) -> None:
        self.sheet_of = lru_cache(maxsize=1_024)(self.config.sheet_for)
        self.also = frozenset(name.encode("ascii") for name in self.config.forward_headers)
        self.shadow = self.config.compression.mode == "shadow"
        in_shadow = replace(self.config.compression, mode="shadow")
        self.shadow_config = replace(self.config, compression=in_shadow)
        tenant = self.config.tenants.header
        self.without = frozenset({tenant.encode("ascii")} if tenant else ())

    @property
    def pool(self) -> Pool[Job, Edited]:
        """What edits, off the event loop."""
        return self.editing.pool

    def record(self, exchange: Exchange, body: bytes | None = None) -> None:
        """Have everyone who watches told of a finished exchange; `body` is for the journal."""
        self.meter.record(exchange)
        if self.config.log.requests or self.reporter is not None or self.journal is not None:
            self.tell(exchange)
        if self.journal is not None and body is not None:
            self.journal.add(exchange, body)

    def book(self, tenant: str, dollars: float) -> None:
        """Book what a call that was billed saved its tenant, who may stand down by it."""
        now = self.clock()
        if self.ledger.add(tenant, dollars, now):
            self.meter.stand_down(tenant)
            self.meter.resting(self.ledger.resting(now))

    def tell(self, exchange: Exchange) -> None:
        """Write the line and the span of an exchange, within a moment.

        A few at a time: one by one they cost as much as half of passing a request on.
        """
        self.untold.append(exchange)
        if len(self.untold) >= _LINES_AT_ONCE:
            self.tell_all()
        elif len(self.untold) == 1:
            asyncio.get_running_loop().call_later(_LINES_AFTER_S, self.tell_all)

    def tell_own(self, exchange: Exchange) -> None:
        """Count a request that was answered here, and write its line."""
        now = time.time_ns()
        held_ms = (now - exchange.started_ns) / 1e6
        self.meter.request(
            exchange.route,
            exchange.tenant,
            exchange.rung,
            exchange.reason,
            held_ms / 1e3,
            exchange.tokens_in,
            exchange.tokens_out,
        )
        if self.config.log.requests or self.reporter is not None:
            self.tell(exchange._replace(held_ms=held_ms, ended_ns=now))

    def tell_all(self) -> None:
        """Write all lines that are not written yet, and tell the collector."""
        exchanges, self.untold = self.untold, []
        for exchange in exchanges:
            log_exchange(exchange, self.config.log)
            if self.reporter is not None:
                self.reporter.record(exchange)
