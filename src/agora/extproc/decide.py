"""What becomes of a request body, decided as the gateway decides it, with the same parts."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from agora.core.prices import PriceSheet, sheet_for
from agora.core.scorer import Scorer
from agora.extproc.pieces import Room
from agora.gateway.app import Editing, make_editing
from agora.gateway.body import model_before, model_behind
from agora.gateway.config import Config
from agora.gateway.credentials import is_bearer, owners
from agora.gateway.edit import NOT_ADMITTED, TOO_DEEP, Edited, Job, Look
from agora.gateway.forward import SHADOW_SECONDS
from agora.gateway.metrics import Meter
from agora.gateway.pool import Missed, Ticket
from agora.gateway.reading import readable
from agora.gateway.refusals import Refusals
from agora.gateway.refused import RefusedError
from agora.gateway.report import Reporter, reporter_for
from agora.gateway.route import CONVERSE, Family, Header, Route, by_path, bypassed, route_of
from agora.gateway.tenants import tenant_of

_log = logging.getLogger(__name__)
_BYTES_PER_TOKEN = 3
"""Few bodies have less: a shorter one is below the threshold without being read."""
_AHEAD_TOKENS = 24_000
_RESTORING_MOST = 64
_LEAST_WINDOW = 8_000
_NO_TICKET = Ticket(float("inf"))
_BODIES_HELD = 8
"""So many of the longest bodies may be on their way in at a time; beyond it they pass unread."""
_SLACK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a request, as far as it matters here."""

    method: str
    path: str
    headers: list[Header]
    route: Route
    model: str | None
    """The model that the path names."""
    keys: frozenset[Family]
    tenant: str


@dataclass(slots=True, kw_only=True)
class Decider:
    """Everything that requests share. One for each process, on its event loop."""

    config: Config
    editing: Editing
    meter: Meter
    secret: bytes
    reporter: Reporter | None = None
    clock: Callable[[], float] = time.monotonic
    rules: Refusals = field(default_factory=Refusals)
    busy: int = field(default=0, init=False)
    """Bodies that are being decided on."""
    room: Room = field(init=False)
    """For bodies that come in pieces: Envoy keeps none of them."""
    sheet: Callable[[Family, frozenset[Family], str | None], PriceSheet] = field(init=False)

    def __post_init__(self) -> None:
        self.sheet = lru_cache(maxsize=1_024)(self._sheet)
        self.room = Room(most=_BODIES_HELD * self.config.limits.body_bytes)

    @classmethod
    def of(cls, config: Config, scorer: Scorer | None = None) -> "Decider":
        """Return what decides under a configuration; none of its threads runs yet."""
        editing = make_editing(config, scorer)
        meter = Meter(most_tenants=config.tenants.most)
        meter.watch(editing.editor.occupancy)
        secret = os.environ.get(config.tenants.secret_env, "").encode() or secrets.token_bytes(32)
        return cls(config=config, editing=editing, meter=meter, secret=secret)

    def start(self) -> None:
        """Start the threads, and what tells a collector.

        Raises:
            MissingExtraError: a collector is configured and the packages for it are not installed.
        """
        self.reporter = self.reporter or reporter_for(self.config.telemetry)
        self.editing.pool.start()
        self.editing.by_rule.start()

    def stop(self) -> None:
        """Let them go."""
        self.editing.pool.close()
        self.editing.by_rule.close()
        if self.reporter is not None:
            self.reporter.close()

    def head(self, headers: list[Header]) -> Head:
        """Return what the headers of a request say, Envoy's pseudo-headers among them."""
        pseudo = {name: value for name, value in headers if name.startswith(b":")}
        plain = [(name, value) for name, value in headers if not name.startswith(b":")]
        method = pseudo.get(b":method", b"").decode("latin-1")
        path, _, query = pseudo.get(b":path", b"").partition(b"?")
        asked = by_path(method, path.decode("latin-1"))
        keys = owners(plain, query)
        return Head(
            method=method,
            path=path.decode("latin-1"),
            headers=plain,
            route=route_of(asked, plain, keys, bearer=is_bearer(plain)),
            model=asked.model,
            keys=keys,
            tenant=tenant_of(plain, self.config.tenants, self.secret),
        )

    def why_not(self, head: Head) -> str:
        """Return why a body need not even be sent here, or nothing."""
        if not head.route.format:
            return "not_a_prompt"
        if not self.config.compression.enabled:
            return "disabled"
        if bypassed(head.headers):
            return "bypass"
        if head.route is CONVERSE and not is_bearer(head.headers):
            return "signed_body"
        limits, compression = self.config.limits, self.config.compression
        for name, value in head.headers:
            if name == b"content-length" and value.isdigit():
                if int(value[:20]) > limits.body_bytes:
                    return "too_long"
                plain = not any(other == b"content-encoding" for other, _ in head.headers)
                if plain and int(value[:20]) < compression.least_tokens * _BYTES_PER_TOKEN:
                    return "below_threshold"
        return ""

    async def decide_in_time(self, head: Head, came: bytes) -> Edited | str:
        """Return what `decide` does, or that there was no time, where nobody else keeps the time.

        Envoy has no timeout for bodies in full duplex, so this is the last one.
        """
        limits = self.config.limits
        longest = max(limits.restore_deadline_ms, limits.compress_deadline_ms) / 1e3
        try:
            async with asyncio.timeout(longest + _SLACK_SECONDS):
                return await self.decide(head, came)
        except TimeoutError:
            return Missed.LATE

    async def decide(self, head: Head, came: bytes) -> Edited | str:
        """Return the edited body, or why it goes on as it came. Raises nothing."""
        limits = self.config.limits
        if len(came) > limits.body_bytes:
            return "too_long"
        if self.busy >= limits.concurrent:
            return "overloaded"
        self.busy += 1
        self.meter.opened()
        try:
            body = await readable(came, head.headers, limits.body_bytes)
            if len(body) < self.config.compression.least_tokens * _BYTES_PER_TOKEN:
                return "below_threshold"
            outcome = await self._outcome(head, body)
        except RefusedError as refused:
            return refused.reason
        except Exception as error:
            _log.warning("deciding failed with %s", type(error).__name__)
            return "failed"
        finally:
            self.busy -= 1
            self.meter.closed()
        if isinstance(outcome, str):
            return outcome
        if outcome.reason == TOO_DEEP:
            return TOO_DEEP
        place = ("envoy", outcome.model)
        if outcome.changed and not self.rules.allows(head.tenant, place):
            return "rule_breaker_open"
        return outcome

    async def _outcome(self, head: Head, body: bytes) -> Edited | str:
        """Return the edit as the gateway makes it: remembered, worked out, continued or by rule."""
        pool, limits = self.editing.pool, self.config.limits
        longest = max(limits.restore_deadline_ms, limits.compress_deadline_ms) / 1e3
        shadow = self.config.compression.mode == "shadow"
        longest = max(longest, SHADOW_SECONDS) if shadow else longest
        known, talk = self._look(head, body)
        if known and talk and talk.unread and known.tokens_before >= _AHEAD_TOKENS:
            pool.offer(replace(self._job(head, b"", _NO_TICKET), ahead=talk))
        if known is None and talk is not None and pool.is_under_way(talk):
            await pool.wait_for(talk, longest)
            known, talk = self._look(head, body)
        outcome: Edited | str = known or await pool.run(
            lambda ticket: self._job(head, body, ticket),
            kind=(len(body) >> 16).bit_length() // 2,
            same=talk,
            deadline_seconds=None if talk and not shadow else longest,
            waiting_most=None if talk and not shadow else _RESTORING_MOST,
        )
        stopped = isinstance(outcome, str)
        if isinstance(outcome, str):
            job = self._job(head, body, _NO_TICKET)
            outcome = self.editing.editor.continue_edit(job, outcome) or outcome
        else:
            stopped = outcome.reason == NOT_ADMITTED
        sent = body if isinstance(outcome, str) else outcome.body
        if stopped and self._beyond_window(head, sent):
            by_rule = await self.editing.by_rule.run(lambda t: self._job(head, body, t))
            outcome = outcome if isinstance(by_rule, str) else by_rule
        return outcome

    def _look(self, head: Head, body: bytes) -> Look:
        return self.editing.editor.look(self._job(head, body, _NO_TICKET))

    def _job(self, head: Head, body: bytes, ticket: Ticket) -> Job:
        agent = next((value for name, value in head.headers if name == b"user-agent"), b"")
        return Job(
            body=body,
            route=head.route,
            sheet_of=lambda model: self.sheet(head.route.family, head.keys, model or head.model),
            model=head.model,
            tenant=head.tenant,
            agent=agent.decode("latin-1"),
            until=ticket.until,
            gone=ticket.is_gone,
        )

    def _sheet(self, family: Family, keys: frozenset[Family], model: str | None) -> PriceSheet:
        """Return the prices of a model: those of the upstream the file names for it, or its own."""
        upstream = self.config.upstream_for(family, model, keys)
        if upstream is None:
            return sheet_for(model or "", self.config.sheets)
        return self.config.sheet_for(upstream, model)

    def _beyond_window(self, head: Head, body: bytes) -> bool:
        if len(body) <= _LEAST_WINDOW * _BYTES_PER_TOKEN:
            return False
        model = model_before(body) or model_behind(body) or head.model
        window = self.sheet(head.route.family, head.keys, model).window
        return window is not None and len(body) > window * _BYTES_PER_TOKEN
