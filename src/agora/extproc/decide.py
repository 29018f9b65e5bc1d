"""What becomes of a request body, decided as the gateway decides it, with the same parts."""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from agora.core.compression import Reason, Rung, Thinking
from agora.core.prices import PriceSheet, sheet_for
from agora.core.scorer import Scorer
from agora.experiment.assignment import Arm, Seat
from agora.experiment.trial import Trial
from agora.extproc.pieces import Room
from agora.gateway.body import model_before, model_behind
from agora.gateway.config import Config
from agora.gateway.editing.affinity import affinity_key
from agora.gateway.editing.deciding import (
    EXPERIMENT_STOPPED,
    RULE_BREAKER,
    Prompt,
    decided,
    least_bytes,
    untouched_by_head,
)
from agora.gateway.editing.job import TOO_DEEP, Edited
from agora.gateway.editing.pool import Missed
from agora.gateway.editing.refusals import Refusals
from agora.gateway.editing.thinking import HeldThinking
from agora.gateway.editing.workers import Editing, make_editing
from agora.gateway.forwarding.arms import WAITING, note_call, take_seat, trial_for
from agora.gateway.intake.bodies import readable
from agora.gateway.intake.refused import RefusedError
from agora.gateway.routing.keys import is_bearer, keys_of
from agora.gateway.routing.routes import Family, Header, Route, by_path, route_of
from agora.gateway.routing.tenants import tenant_of
from agora.gateway.watching.bill import Billed
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.logs import log_exchange
from agora.gateway.watching.metrics import Meter
from agora.gateway.watching.report import Reporter, reporter_for

_log = logging.getLogger(__name__)
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
    trial: Trial | None = None
    """The experiment that runs."""
    reporter: Reporter | None = None
    clock: Callable[[], float] = time.monotonic
    rules: Refusals = field(default_factory=Refusals)
    thinking: HeldThinking = field(default_factory=HeldThinking)
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
        """Return what decides under a configuration; none of its threads runs yet.

        Raises:
            AgoraError: an experiment is configured that cannot be run.
        """
        editing = make_editing(config, scorer)
        meter = Meter(most_tenants=config.tenants.max_named)
        meter.watch(editing.editor.occupancy)
        secret = os.environ.get(config.tenants.secret_env, "").encode() or secrets.token_bytes(32)
        trial = trial_for(config, secret, meter)
        return cls(config=config, editing=editing, meter=meter, secret=secret, trial=trial)

    def start(self) -> None:
        """Start the threads, and what tells a collector.

        Raises:
            MissingExtraError: a collector is configured and the packages for it are not installed.
        """
        self.reporter = self.reporter or reporter_for(self.config.telemetry)
        for pool in self.editing.deciding:
            pool.start()

    def stop(self) -> None:
        """Let them go."""
        for pool in self.editing.deciding:
            pool.close()
        if self.reporter is not None:
            self.reporter.close()
        if self.trial is not None:
            self.trial.close()

    def head(self, headers: list[Header]) -> Head:
        """Return what the headers of a request say, Envoy's pseudo-headers among them."""
        pseudo = {name: value for name, value in headers if name.startswith(b":")}
        plain = [(name, value) for name, value in headers if not name.startswith(b":")]
        method = pseudo.get(b":method", b"").decode("latin-1")
        path, _, query = pseudo.get(b":path", b"").partition(b"?")
        asked = by_path(method, path.decode("latin-1"))
        keys = keys_of(plain, path, query).owners
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
        reason = untouched_by_head(self.config, head.route, head.headers)
        if reason:
            return reason
        limits = self.config.limits
        for name, value in head.headers:
            if name == b"content-length" and value.isdigit():
                if int(value[:20]) > limits.body_bytes:
                    return "too_long"
                plain = not any(other == b"content-encoding" for other, _ in head.headers)
                # Short calls of an experiment are counted too: they are the first of long ones.
                short = int(value[:20]) < least_bytes(self.config)
                if plain and short and self.trial is None:
                    return "below_threshold"
        return ""

    def affinity(self, head: Head, body: bytes) -> str:
        """Return the key of the conversation that a body is a call of, if anybody wants it."""
        tenants = self.config.tenants
        if tenants.affinity_header is None or not head.route.format:
            return ""
        return affinity_key(head.headers, tenants, body)

    async def seat(self, head: Head, came: bytes) -> tuple[Seat | None, str, int]:
        """Return where a request sits in the experiment, its model, and the size of its body."""
        if self.trial is None:
            return None, "", 0
        try:
            body = await readable(came, head.headers, self.config.limits.body_bytes)
        except RefusedError:
            return None, "", 0
        model = model_before(body) or model_behind(body) or head.model or ""
        seat = take_seat(
            self.trial,
            self.config.experiment,
            head.tenant,
            model,
            head.headers,
            body,
            head.route.field,
        )
        return seat, model, len(body)

    def dollars(self, head: Head, model: str, billed: Billed) -> float:
        """Return what a call cost by the price sheet."""
        sheet = self.sheet(head.route.family, head.keys, model or head.model)
        return sheet.as_billed(billed.written, billed.written_1h).dollars(
            uncached=billed.fresh, read=billed.read, written=billed.written, output=billed.output
        )

    def note(self, seat: Seat, exchange: Exchange, size: int) -> None:
        """Count a call that is over for its arm."""
        if self.trial is not None:
            note_call(self.trial, seat, exchange, affected=size >= least_bytes(self.config))
            self.meter.experiment_call(seat.arm)

    async def decide_in_time(self, head: Head, came: bytes, seat: Seat | None) -> Edited | str:
        """Return what `decide` does, or that there was no time, where nobody else keeps the time.

        Envoy has no timeout for bodies in full duplex, so this is the last one.
        """
        limits = self.config.limits
        longest = max(limits.restore_deadline_ms, limits.compress_deadline_ms) / 1e3
        try:
            async with asyncio.timeout(longest + _SLACK_SECONDS):
                return await self.decide(head, came, seat)
        except TimeoutError:
            return Missed.LATE

    async def decide(self, head: Head, came: bytes, seat: Seat | None = None) -> Edited | str:
        """Return the edited body, or why it goes on as it came. Raises nothing.

        While an experiment runs, only what has a seat in it is edited.
        """
        limits = self.config.limits
        if len(came) > limits.body_bytes:
            return "too_long"
        if self.busy >= limits.concurrent:
            return "overloaded"
        self.busy += 1
        self.meter.opened()
        try:
            body = await readable(came, head.headers, limits.body_bytes)
            if len(body) < least_bytes(self.config):
                return "below_threshold"
            outcome: Edited | str
            if self.trial is not None and seat is None:
                outcome = EXPERIMENT_STOPPED if self.trial.stopped else WAITING
            else:
                outcome = await decided(self._prompt(head, body), self.editing, self.config)
        except RefusedError as refused:
            return refused.reason
        except Exception as error:
            _log.warning("deciding failed with %s", type(error).__name__)
            return "failed"
        finally:
            self.busy -= 1
            self.meter.closed()
        if not isinstance(outcome, str):
            if outcome.reason == TOO_DEEP:
                return TOO_DEEP
            place = ("envoy", outcome.model)
            if outcome.changed and not self.rules.allows(head.tenant, place):
                outcome = RULE_BREAKER
        if self.config.compression.mode == "shadow" or _is_compared(seat):
            return outcome
        return self._held_thinking(head, body, outcome)

    def _held_thinking(self, head: Head, body: bytes, outcome: Edited | str) -> Edited | str:
        """Return the outcome without thinking that does not hold.

        Nothing that is refused can be sent again from here, so where it cannot be known what holds
        the provider is asked to drop the rest.
        """
        known = outcome if isinstance(outcome, Edited) else None
        why = outcome if isinstance(outcome, str) else outcome.reason
        model = model_before(body) or model_behind(body) or head.model
        held = self.thinking.for_call(
            body, known, why, route=head.route, model=model, who=head.tenant, may_ask=True
        )
        if not held.blocks and not held.asks:
            return outcome
        edited = known if known is not None and known.changed else None
        lost = Thinking(held.blocks + (edited.thinking.blocks if edited else 0))
        if edited is not None:
            return replace(edited, body=held.body, asks=held.asks, thinking=lost)
        reason = str(Reason.THINKING_REMOVED)
        made = Edited(body=held.body, reason=reason, rung=Rung.RULE, model=model)
        return replace(made, asks=held.asks, thinking=lost, detail=why)

    def record(self, exchange: Exchange) -> None:
        """Have everyone who watches told of a finished exchange."""
        self.meter.record(exchange)
        log_exchange(exchange, self.config.log)
        if self.reporter is not None:
            self.reporter.record(exchange)

    def _prompt(self, head: Head, body: bytes) -> Prompt:
        def sheet_of(model: str | None) -> PriceSheet:
            return self.sheet(head.route.family, head.keys, model or head.model)

        agent = next((value for name, value in head.headers if name == b"user-agent"), b"")
        return Prompt(
            body=body,
            route=head.route,
            sheet_of=sheet_of,
            window_of=lambda model: sheet_of(model).window,
            model=head.model,
            tenant=head.tenant,
            agent=agent.decode("latin-1"),
        )

    def _sheet(self, family: Family, keys: frozenset[Family], model: str | None) -> PriceSheet:
        """Return the prices of a model: those of the upstream the file names for it, or its own."""
        upstream = self.config.upstream_for(family, model, keys)
        if upstream is None:
            return sheet_for(model or "", self.config.sheets)
        return self.config.sheet_for(upstream, model)


def _is_compared(seat: Seat | None) -> bool:
    return seat is not None and seat.arm is Arm.EVERYTHING
