"""One exchange: a request read, edited and sent on, its answer handed back as it comes."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from agora.core.compression import Reason, Rung
from agora.core.prices import PriceSheet, sheet_for
from agora.gateway.body import deeper_than, model_before, model_behind, model_of
from agora.gateway.config import Config, Upstream
from agora.gateway.conversations import Talk
from agora.gateway.credentials import is_bearer
from agora.gateway.edit import NOT_ADMITTED, TOO_DEEP, Edited, Job, Look
from agora.gateway.gate import Visit
from agora.gateway.headers import homeward, onward
from agora.gateway.hindsight import Looked, ranges
from agora.gateway.journal import Journal
from agora.gateway.logs import Exchange, ToldError, log_exchange, model_name
from agora.gateway.metrics import Meter
from agora.gateway.pool import Missed, Pool, Ticket
from agora.gateway.reading import Reading, check_length, read_body, readable, too_slow
from agora.gateway.refusals import Place, Refusals
from agora.gateway.refused import RefusedError, say
from agora.gateway.report import Reporter
from agora.gateway.route import CONVERSE, Family, Header, Route, bypassed
from agora.gateway.shadow import Would, blocks_of, predicted_saving, shared_bytes
from agora.gateway.tenants import Billed, Ledger, Sent, net_saving
from agora.gateway.upstream import (
    ERROR_MOST,
    Answer,
    Client,
    TruncatedError,
    UpstreamError,
    names_history_rule,
)
from agora.gateway.usage import UsageReader

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger(__name__)
_BYTES_PER_TOKEN = 3
"""Few bodies have less: a shorter one is below the threshold without being read."""
_LINES_AT_ONCE = 64
_LINES_AFTER_S = 0.1
_CLIMBING = ("/../", "/./", "/..;", "%2e", "%2E")
"""What leads out of a folder, read once or, by a careless server, twice."""
_NO_TICKET = Ticket(float("inf"))
STAND_DOWN = "stand_down"
_LEAST_WINDOW = 8_000
"""No window is smaller, in tokens: a body that fits there need not be looked at."""
_AHEAD_TOKENS = 24_000
"""From here on the texts of a conversation are read as they come, since its edit is not far."""
_RESTORING_MOST = 64
"""Bodies of conversations not known here that may wait for a thread."""
SHADOW_SECONDS = 60.0
"""How long a decision in shadow may take: nobody waits for it, and a missed one is not counted."""
_UNDECIDED_MOST = 128
"""Exchanges in shadow that may be over and undecided: their bodies are held."""
_LATE = frozenset({Missed.LATE, Missed.SATURATED, Missed.OPEN})
_EVENTS = (b"text/event-stream", b"application/vnd.amazon.eventstream")
_REFUSED = frozenset({400, 422, 500})
"""How a broken history is refused: providers say 400 or 422, servers of open models also 500."""


class BrokenOffError(ToldError):
    """An answer was cut off, and the client has no other way to know.

    Raised through the server, which then ends the connection without the end of the body.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Where a request is meant to go, as far as its head says."""

    route: Route
    model: str | None
    """The model that the path names."""
    keys: frozenset[Family]
    """Whose keys it carries."""


@dataclass(slots=True, kw_only=True)
class Forwarder:
    """Everything that exchanges share. One for each process, on its event loop."""

    config: Config
    client: Client
    look: Callable[[Job], Look]
    """What becomes of a body that continues one seen before, at once."""
    continue_edit: Callable[[Job, str], Edited | None]
    """A body with the last edit of its conversation, for when there is no time for another."""
    pool: Pool[Job, Edited]
    by_rule: Pool[Job, Edited]
    """The rung below, for prompts that would be refused as they are."""
    meter: Meter
    ledger: Ledger
    secret: bytes
    reading: Reading
    reporter: Reporter | None = None
    journal: Journal | None = None
    clock: Callable[[], float] = time.monotonic
    rules: Refusals = field(default_factory=Refusals)
    """Whose edits are held back because others like them were refused."""
    sheet_of: Callable[[Upstream, str | None], PriceSheet] = field(init=False)
    also: frozenset[bytes] = field(init=False)
    """Headers that the configuration forwards."""
    without: frozenset[bytes] = field(init=False)
    shadow: bool = field(init=False)
    """Whether edits are decided on and not made."""
    undecided: set["asyncio.Task[None]"] = field(default_factory=set, init=False)
    """Exchanges in shadow that are over, and whose edit is still being worked out."""
    untold: list[Exchange] = field(default_factory=list, init=False)
    """Exchanges whose lines are not written yet."""

    def __post_init__(self) -> None:
        self.sheet_of = lru_cache(maxsize=1_024)(self.config.sheet_for)
        self.also = frozenset(name.encode("ascii") for name in self.config.forward_headers)
        self.shadow = self.config.compression.mode == "shadow"
        tenant = self.config.tenants.header
        self.without = frozenset({tenant.encode("ascii")} if tenant else ())

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, way: Way, visit: Visit
    ) -> None:
        """Serve one HTTP request."""
        exchange = _Exchange(self, scope, receive, send, way.route, way, visit, visit.tenant)
        try:
            await exchange.run()
        finally:
            if exchange.deciding is None:
                exchange.account()
            else:
                self._account_later(exchange)

    def _account_later(self, exchange: "_Exchange") -> None:
        """Count an exchange in shadow once it is decided; its connection is free by then."""
        if len(self.undecided) >= _UNDECIDED_MOST and exchange.deciding is not None:
            exchange.deciding.cancel()
        task = asyncio.ensure_future(exchange.settle())
        self.undecided.add(task)
        task.add_done_callback(self.undecided.discard)

    def tell(self, exchange: Exchange) -> None:
        """Write the line and the span of an exchange, within a moment.

        A few at a time: one by one they cost as much as half of passing a request on.
        """
        self.untold.append(exchange)
        if len(self.untold) >= _LINES_AT_ONCE:
            self.tell_all()
        elif len(self.untold) == 1:
            asyncio.get_running_loop().call_later(_LINES_AFTER_S, self.tell_all)

    def tell_all(self) -> None:
        """Write all lines that are not written yet, and tell the collector."""
        exchanges, self.untold = self.untold, []
        for exchange in exchanges:
            log_exchange(exchange, self.config.log)
            if self.reporter is not None:
                self.reporter.record(exchange)

    def target(self, scope: Scope) -> str:
        """Return the path and query to forward, as the client wrote them."""
        path = scope["path"]
        raw = (scope.get("raw_path") or path.encode()).decode("latin-1")
        if (
            any(step in f"{path}/" for step in _CLIMBING)
            or any(char in path for char in "\\\r\n\0")
            or any(char in raw for char in "# ")
        ):
            raise RefusedError(400, "path", "the request path is not a plain path")
        query = scope["query_string"].decode("latin-1")
        return f"{raw}?{query}" if query else raw


@dataclass(slots=True)
class _Exchange:
    """One request on its way."""

    door: Forwarder
    scope: Scope
    receive: Receive
    send: Send
    route: Route
    way: Way
    visit: Visit
    tenant: str = ""
    body: bytes = b""
    """What the client sent, decompressed."""
    came: bytes = b""
    """The same, unchanged."""
    edited: Edited | None = None
    would: Edited | None = None
    """In shadow mode, what would have been sent."""
    deciding: "asyncio.Task[Edited | str] | None" = None
    talk: Talk | None = None
    sent: Sent = field(default_factory=Sent)
    went_before: tuple[int, int, int, float] = (0, 0, 0, 0.0)
    """What was known of the conversation before this call."""
    reason: str = ""
    upstream: Upstream | None = None
    model: str | None = None
    status: int = 0
    resent: bool = False
    held: float = 0.0
    first_byte: float = 0.0
    head_at: float = 0.0
    """When the answer began."""
    first_chunk: float = 0.0
    streamed: bool = False
    """Whether the answer comes as events."""
    error: str = ""
    reader: UsageReader | None = None
    began: float = field(default_factory=time.monotonic)
    started_ns: int = field(default_factory=time.time_ns)
    begun_answer: bool = False
    client_left: bool = False
    stopped: RefusedError | None = None
    """Why an upload ended before its end."""

    async def run(self) -> None:
        door = self.door
        try:
            target = door.target(self.scope)
            if not self.route.format:
                await self._pass_through(target)
                return
            await self._read_body()
            task = asyncio.current_task()
            assert task is not None  # noqa: S101
            watch = asyncio.ensure_future(self._watch(task))
            try:
                if self.door.shadow:
                    await self._shadow(target)
                else:
                    await self._edit()
                    await self._converse(target)
            except asyncio.CancelledError:
                if not self.client_left or task.uncancel():
                    raise
                self.error = self.error or "client_left"
            finally:
                watch.cancel()
        except RefusedError as refused:
            await self._refuse(refused)
        except UpstreamError as failed:
            self.error = failed.kind
            said = "the upstream gave no answer" if failed.status == 502 else "the upstream is late"
            await self._refuse(RefusedError(failed.status, self.reason, f"{said} ({failed.kind})"))
        except TruncatedError:
            self.error = "truncated"
            if not self.begun_answer:
                message = "the upstream's answer broke off"
                await self._refuse(RefusedError(502, self.reason, message))
                return
            # The client must not take the part for the whole.
            raise BrokenOffError from None

    async def _read_body(self) -> None:
        headers, door = self.scope["headers"], self.door
        came = await read_body(headers, self.receive, door.reading, self.visit.address)
        if came is None:
            self.client_left = True
            self.error = "client_left"
            raise RefusedError(499, "client_left", "")
        self.visit.take()
        self.came = came
        self.body = await readable(came, headers, door.config.limits.body_bytes)

    async def _watch(self, task: "asyncio.Task[Any]") -> None:
        """End the exchange when the client leaves."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.client_left = True
        task.cancel()

    async def _edit(self) -> None:
        """Put the edited body in place, or say why it is the client's own."""
        door, config = self.door, self.door.config
        began = door.clock()
        self.reason = self._why_not()
        model: str | None = None
        if self.reason in ("", STAND_DOWN):
            outcome = await self._outcome(self.reason)
            if isinstance(outcome, str):
                self.reason = outcome
            else:
                self.reason, model = outcome.reason, outcome.model
                if self.reason == TOO_DEEP:
                    raise _too_deep(config.limits.depth)
                self.edited, self.talk = outcome, outcome.talk
        if model is None:
            model = self._peek() or self.way.model
        self.model = model
        self.upstream = self._upstream_for(model)
        if self.upstream is None:
            raise no_upstream(self.route.family, self.way.keys, model=True)
        changed = self.edited is not None and self.edited.changed
        if changed and not door.rules.allows(self.tenant, (self.upstream.name, model)):
            await self._hold_back()
        self.held = door.clock() - began

    async def _shadow(self, target: str) -> None:
        """Forward the client's own bytes at once, and decide meanwhile what an edit would be."""
        began = self.door.clock()
        try:
            self.reason = self._why_not()
        except RefusedError as refused:
            self.reason = refused.reason
        self.model = self._peek() or self.way.model
        self.upstream = self._upstream_for(self.model)
        if self.upstream is None:
            raise no_upstream(self.route.family, self.way.keys, model=True)
        if self.reason in ("", STAND_DOWN):
            self.reason = str(Reason.SHADOW)
            self.deciding = asyncio.ensure_future(self._outcome())
        self.held = self.door.clock() - began
        await self._converse(target)

    async def settle(self) -> None:
        """Take in what an edit would have been, and count; the client has its answer by now."""
        try:
            await self._decided()
        finally:
            self.account()

    async def _decided(self) -> None:
        assert self.deciding is not None  # noqa: S101
        outcome: Edited | str
        try:
            outcome = await self.deciding
        except asyncio.CancelledError:
            outcome = Missed.SATURATED
        except Exception as error:
            _log.warning("deciding in shadow failed with %s", type(error).__name__)
            outcome = Missed.FAILED
        if isinstance(outcome, str):
            self.reason = outcome
            return
        self.would, self.model = outcome, self.model or outcome.model
        if not outcome.changed:
            self.reason = outcome.reason

    async def _hold_back(self) -> None:
        """Forward the client's own body, or an edit by the fallback rule if it would not fit."""
        if not self._beyond_window(self.body):
            self.edited, self.reason = None, "rule_breaker_open"
            return
        outcome = await self.door.by_rule.run(self._job)
        if not isinstance(outcome, str) and outcome.changed:
            self.edited, self.reason = outcome, outcome.reason

    def _upstream_for(self, model: str | None) -> Upstream | None:
        model = model or self.way.model
        return self.door.config.upstream_for(self.route.family, model, self.way.keys)

    def _headers(self, *, plain: bool) -> list[Header]:
        """Return the headers to forward; with a body of ours there is no encoding."""
        door = self.door
        without = door.without | {b"content-encoding"} if plain else door.without
        return onward(self.scope["headers"], door.also, without)

    def _why_not(self) -> str:
        """Return why the body is not even read, or nothing."""
        config = self.door.config
        if not config.compression.enabled:
            return "disabled"
        if bypassed(self.scope["headers"]):
            return "bypass"
        if self.route is CONVERSE and not is_bearer(self.scope["headers"]):
            # An edited body would no longer match its signature.
            return "signed_body"
        if (
            not config.recall
            and len(self.body) < config.compression.least_tokens * _BYTES_PER_TOKEN
        ):
            if deeper_than(self.body, config.limits.depth):
                raise _too_deep(config.limits.depth)
            return "below_threshold"
        if not self.door.ledger.may_compress(self.tenant, self.door.clock()):
            return STAND_DOWN
        return ""

    def _job(self, ticket: Ticket) -> Job:
        config, sheet_of = self.door.config, self.door.sheet_of

        def prices(model: str | None) -> PriceSheet:
            upstream = self._upstream_for(model)
            if upstream is None:
                # It goes nowhere; what it would cost there is nobody's price.
                return sheet_for(model or "", config.sheets)
            return sheet_of(upstream, model or self.way.model)

        return Job(
            body=self.body,
            route=self.route,
            sheet_of=prices,
            model=self.way.model,
            tenant=self.tenant,
            agent=_header(self.scope["headers"], b"user-agent").decode("latin-1"),
            until=ticket.until,
            gone=ticket.is_gone,
        )

    async def _outcome(self, why_not: str = "") -> Edited | str:
        """Return the edited body, or why it is forwarded unchanged.

        Whatever the time: a conversation that went on edited goes on so, with its last edit if
        there is none that is newer. One that is not known here may have been edited elsewhere, and
        sending all of it would cost more than waiting: it may take longer.
        """
        door, limits = self.door, self.door.config.limits
        longest = max(limits.restore_deadline_ms, limits.compress_deadline_ms) / 1e3
        longest = max(longest, SHADOW_SECONDS) if door.shadow else longest
        outcome: Edited | str = why_not
        if not why_not:
            known, talk = self._look()
            if known and talk and talk.unread and known.tokens_before >= _AHEAD_TOKENS:
                door.pool.offer(replace(self._job(_NO_TICKET), body=b"", ahead=talk))
            if known is None and talk is not None and door.pool.is_under_way(talk):
                # Its edit is already late: one call is sent without it, not several.
                await door.pool.wait_for(talk, longest)
                known, talk = self._look()
            outcome = known or await door.pool.run(
                self._job,
                kind=_size(self.body),
                same=talk,
                deadline_seconds=None if talk and not door.shadow else longest,
                waiting_most=None if talk and not door.shadow else _RESTORING_MOST,
            )
        stopped = isinstance(outcome, str)
        if isinstance(outcome, str):
            outcome = self._continue_edit(outcome) or outcome
        else:
            stopped = outcome.reason == NOT_ADMITTED
        body = self.body if isinstance(outcome, str) else outcome.body
        if stopped and self._beyond_window(body):
            # It would be refused as it is: then even the rule is better.
            by_rule = await door.by_rule.run(self._job)
            outcome = outcome if isinstance(by_rule, str) else by_rule
        return outcome

    def _look(self) -> Look:
        """Return what is remembered; if that fails, the pool reads the body again."""
        try:
            return self.door.look(self._job(_NO_TICKET))
        except Exception as error:
            _log.warning("looking up the conversation failed with %s", type(error).__name__)
            return Look()

    def _continue_edit(self, why: str) -> Edited | None:
        """Return the body with the last edit of its conversation, if there is one."""
        try:
            return self.door.continue_edit(self._job(_NO_TICKET), why)
        except Exception as error:
            _log.warning("looking up the conversation failed with %s", type(error).__name__)
            return None

    def _beyond_window(self, body: bytes) -> bool:
        """Tell whether a prompt would be refused because it does not fit."""
        if len(body) <= _LEAST_WINDOW * _BYTES_PER_TOKEN:
            return False
        model = model_of(body) or self.way.model
        upstream = self._upstream_for(model)
        window = None if upstream is None else self.door.sheet_of(upstream, model).window
        return window is not None and len(body) > window * _BYTES_PER_TOKEN

    def _goes(self, edited: Edited | None, *, instead: bool = False) -> None:
        """Note what the conversation is sent with, and whether that continues what it had."""
        if edited is not None:
            self.sent = Sent(
                tokens_in=edited.tokens_before,
                tokens_out=edited.tokens_after,
                new_tokens=edited.newest_tokens,
                breaks=edited.at_epoch,
            )
        elif self.sent.tokens_in:
            self.sent = replace(self.sent, tokens_out=self.sent.tokens_in)
        talk = self.talk
        if talk is None or self.upstream is None:
            return
        if instead:
            # The one before was refused: no cache has it.
            talk.calls, talk.epoch, talk.tokens, talk.when = self.went_before
        self.went_before = talk.calls, talk.epoch, talk.tokens, talk.when
        now, epoch = self.door.clock(), 0 if edited is None else edited.epoch
        tokens = self.sent.tokens_in
        if talk.calls:
            sheet = self.door.sheet_of(self.upstream, self.model)
            self.sent = replace(
                self.sent,
                breaks=talk.epoch != epoch,
                new_tokens=max(0, tokens - talk.tokens),
                warm=now - talk.when <= sheet.ttl_seconds,
            )
        talk.calls += 1
        talk.epoch, talk.tokens, talk.when = epoch, tokens, now

    def _counted(self, prompt: int) -> Sent:
        """Return what was sent, by the provider's count as far as it is known."""
        sent, talk = self.sent, self.talk
        if talk is None:
            return sent
        scale = talk.scale
        whole = talk.billed(
            prompt,
            sent.tokens_in,
            sent.new_tokens,
            edited=self.edited is not None and self.edited.changed,
            breaks=sent.breaks,
        )
        return replace(sent, whole=whole, scale=scale)

    def _late_loss(self) -> None:
        """Book a body that was sent whole for lack of time, if it had been edited elsewhere.

        That is known once the edit is worked out, and by the end of the answer it mostly is.
        """
        known = None if self.talk or self.edited else self._continue_edit(self.reason)
        if known is not None and known.changed and known.talk is not None and not known.at_epoch:
            tokens, talk = known.tokens_before, known.talk
            self.sent = Sent(
                tokens_in=tokens, tokens_out=tokens, new_tokens=known.newest_tokens, breaks=True
            )
            if not talk.calls:
                talk.calls, talk.tokens, talk.when = 1, tokens, self.door.clock()

    def _peek(self) -> str | None:
        """Return the model, by a look at the whole body only if it says where a request goes."""
        upstreams = self.door.config.upstreams
        if len(upstreams) > 1 or upstreams[0].models != ("*",):
            return model_of(self.body)
        return model_before(self.body) or model_behind(self.body)

    async def _converse(self, target: str) -> None:
        """Forward the body and the answer; send the original once more if the edit is refused."""
        assert self.upstream is not None  # noqa: S101
        door, method = self.door, self.scope["method"]
        edited = self.edited
        changed = edited is not None and edited.changed
        headers = self._headers(plain=changed)
        body = edited.body if edited is not None and changed else self.came
        self._goes(edited)
        answer = await self._send(method, target, headers, body)
        if edited is None or not edited.changed:
            await self._give(answer)
            return
        place = (self.upstream.name, edited.model)
        if answer.status not in _REFUSED:
            if answer.status < 300:
                door.rules.accepted(self.tenant, place)
            await self._give(answer)
            return
        try:
            said, whole = await answer.read(ERROR_MOST)
        except TruncatedError:
            answer.close()
            raise
        rule = names_history_rule(said)
        if not rule:
            await self._give(answer, said, whole=whole)
            return
        answer.close()
        self.resent, self.edited, self.reason = True, None, "resent"
        self._goes(None, instead=True)
        headers = self._headers(plain=False)
        answer = await self._send(method, target, headers, self.came)
        said, whole = b"", False
        if answer.status in _REFUSED:
            try:
                said, whole = await answer.read(ERROR_MOST)
            except TruncatedError:
                answer.close()
                raise
        self._blame(rule, answer.status, said, place)
        await self._give(answer, said, whole=whole)

    def _blame(self, rule: str, status: int, said: bytes, place: Place) -> None:
        """Decide whose fault a refused edit was, by what became of the original."""
        door = self.door
        if status in _REFUSED and (same := names_history_rule(said)):
            # The history itself is broken: other conversations can still be edited.
            fault = "history"
            _log.info("an edit and its original were refused (rules %s and %s)", rule, same)
        elif status == 429 or status >= 500:
            fault = "unknown"
            _log.warning("an edit was refused by rule %s; its original got %d", rule, status)
        else:
            fault = "edit"
            _log.warning("an edit was refused by rule %s; its original got %d", rule, status)
            door.rules.refused(self.tenant, place)
        door.meter.resent(self.route.name, place[0], fault)
        door.meter.breakers(door.rules.open_ones + door.pool.open_breakers)

    async def _send(self, method: str, target: str, headers: list[Header], body: Any) -> Answer:
        assert self.upstream is not None  # noqa: S101
        try:
            answer = await self.door.client.send(self.upstream, method, target, headers, body)
        except UpstreamError:
            self.door.meter.upstream(self.route.name, 0, upstream=self.upstream.name)
            raise
        self.first_byte, self.head_at = answer.first_byte_seconds, time.monotonic()
        self.door.meter.upstream(
            self.route.name,
            answer.status,
            upstream=self.upstream.name,
            model=model_name(self.model),
            tenant=self.tenant,
            seconds=answer.first_byte_seconds,
        )
        return answer

    async def _give(self, answer: Answer, read: bytes = b"", *, whole: bool = False) -> None:
        """Hand the answer back piece by piece."""
        send = self.send
        self.status = answer.status
        headers = homeward(answer.headers)
        self.streamed = _header(headers, b"content-type").startswith(_EVENTS)
        try:
            if self.route.format and 200 <= answer.status < 300:
                self.reader = UsageReader(_header(headers, b"content-encoding"))
            edited = self.edited
            if edited is not None and edited.changed:
                removed = edited.tokens_before - edited.tokens_after
                headers.append((b"x-agora-tokens-removed", b"%d" % removed))
            elif self.reason:
                headers.append((b"x-agora-untouched", self.reason.encode()))
            if edited is not None and edited.hint:
                headers.append((b"x-agora-hint", edited.hint.encode()))
            if edited is not None and edited.tokens_before:
                # Both, since usage in the body is the provider's: of what it got, not what came.
                headers.append((b"x-agora-tokens-before", b"%d" % edited.tokens_before))
                headers.append((b"x-agora-tokens-after", b"%d" % edited.tokens_after))
            self.begun_answer = True
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            if read:
                await send({"type": "http.response.body", "body": read, "more_body": True})
            if not whole:
                feed = self.reader.feed if self.reader is not None else None
                while piece := await answer.next():
                    if not self.first_chunk:
                        self.first_chunk = self.first_byte + time.monotonic() - self.head_at
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if feed is not None:
                        feed(piece)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            answer.close()

    async def _pass_through(self, target: str) -> None:
        """Send a request on that is not ours to read, as it comes, and its answer back."""
        scope, limits = self.scope, self.door.config.limits
        check_length(scope["headers"], limits.body_bytes)
        self.reason = "not_a_prompt"
        headers = self._headers(plain=False)
        length = _header(scope["headers"], b"content-length")
        chunked = bool(_header(scope["headers"], b"transfer-encoding"))
        has_body = chunked or length not in (b"", b"0")
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        body: AsyncIterator[bytes] | bytes | None = None
        self.model = self.way.model
        self.upstream = self._upstream_for(None)
        if has_body and (self.upstream is None or self._is_choice()) and self.way.model is None:
            # Which upstream is meant, only the body can say.
            await self._read_body()
            self.model = model_of(self.body)
            self.upstream = self._upstream_for(self.model)
            body, has_body = self.came, False
        if self.upstream is None:
            raise no_upstream(self.route.family, self.way.keys, model=True)
        watch: asyncio.Future[None] | None = None
        if has_body:
            if length:
                headers.append((b"Content-Length", length))
            body = self._upload(task)
        else:
            if body is None:
                body = b"" if length else None
                await self.receive()
                self.visit.take()
            watch = asyncio.ensure_future(self._watch(task))
        try:
            await self._give(await self._send(scope["method"], target, headers, body))
        except asyncio.CancelledError:
            if not (self.client_left or self.stopped) or task.uncancel():
                raise
            if self.stopped is not None:
                await self._refuse(self.stopped)
            else:
                self.error = self.error or "client_left"
        finally:
            if watch is not None:
                watch.cancel()

    def _is_choice(self) -> bool:
        """Tell whether several upstreams could be meant."""
        takes = (u.takes(self.route.family, self.way.keys) for u in self.door.config.upstreams)
        return sum(takes) > 1

    async def _upload(self, task: "asyncio.Task[Any]") -> AsyncIterator[bytes]:
        def stop(refused: RefusedError) -> None:
            if not self.begun_answer:
                self.stopped = refused
                task.cancel()

        def give_way() -> None:
            stop(too_slow())

        loop, seconds = asyncio.get_running_loop(), self.door.config.limits.body_seconds
        timer = loop.call_later(seconds, give_way)
        try:
            with self.door.reading.one(self.visit.address, give_way) as body:
                while True:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        self.client_left = True
                        task.cancel()
                        return
                    piece = message.get("body", b"")
                    body.pass_on(len(piece))
                    if piece:
                        yield piece
                    if not message.get("more_body", False):
                        break
            self.visit.take()
        except RefusedError as refused:
            # Nobody listens here: this runs where the request is written.
            stop(refused)
        finally:
            timer.cancel()

    async def _refuse(self, refused: RefusedError) -> None:
        self.status = refused.status
        self.reason = refused.reason or self.reason
        if self.begun_answer or self.client_left:
            return
        self.begun_answer = True
        await say(self.send, self.route, refused)

    def _count(self, upstream: str, seconds: float, rule: str) -> None:
        """Count the exchange by where it went, now that it is over."""
        edited = self.edited
        self.door.meter.exchange(
            self.route.name,
            upstream=upstream,
            model=model_name(self.model),
            seconds=seconds,
            error=self.error,
            rule=rule,
            tokens_in=edited.tokens_before if edited else 0,
            tokens_out=edited.tokens_after if edited else 0,
        )

    def _would_save(self, billed: Billed | None) -> float:
        """Count what a call in shadow would have saved, and return the dollars of it."""
        would, door = self.would, self.door
        if would is None:
            return 0.0
        talk, breaks, shared = would.talk, would.at_epoch, 1.0
        if talk is not None:
            breaks = talk.epoch != would.epoch if talk.calls else would.at_epoch
            talk.calls += 1
            talk.epoch, talk.when = would.epoch, door.clock()
        if talk is not None and would.changed:
            now = blocks_of(would.body)
            before, talk.blocks = talk.blocks or blocks_of(self.body), now
            shared = min(1.0, shared_bytes(before, now) / len(would.body))
        dollars = 0.0
        if billed is not None and self.upstream is not None and would.changed:
            sent = Would(
                tokens_before=would.tokens_before,
                tokens_after=would.tokens_after,
                bytes_before=len(self.body),
                bytes_after=len(would.body),
                breaks=breaks,
                shared=shared,
            )
            sheet = door.sheet_of(self.upstream, self.model)
            dollars = predicted_saving(sheet, billed, sent)
        door.meter.shadow(
            self.route.name,
            self.tenant,
            would.rung,
            would.reason,
            would.tokens_before,
            would.tokens_after,
            dollars,
        )
        return dollars

    def _looked_back(self) -> Looked:
        """Count what the newest steps say about the last edit of their conversation."""
        talk = self.talk or (self.would.talk if self.would is not None else None)
        if talk is None or talk.hindsight is None:
            return Looked()
        looked = talk.hindsight.take()
        if looked.steps:
            mode = "shadow" if self.door.shadow else "edit"
            self.door.meter.hindsight(self.route.name, self.tenant, mode, looked)
        return looked

    def _told_headers(self) -> tuple[tuple[str, str], ...]:
        """Return the request headers that the log may have."""
        told = self.door.config.log.headers
        return tuple(
            (text, value.decode("latin-1"))
            for name, value in self.scope["headers"]
            if (text := name.decode("latin-1")) in told
        )

    def _newly_elided(self) -> str:
        """Return the numbers of the steps that an edit at this very call elides."""
        edited = self.edited or self.would
        if edited is None or not edited.at_epoch or edited.talk is None:
            return ""
        last = edited.talk.hindsight
        return ranges(last.elided) if last is not None else ""

    def _saved(self, billed: Billed, upstream: str) -> float:
        """Count what the provider reported, and return the dollars that the call saved, net."""
        door, model, dollars = self.door, self.model, 0.0
        if self.reason in _LATE and not door.shadow:
            self._late_loss()
        if self.upstream is not None:
            sent = self._counted(billed.prompt)
            dollars = net_saving(door.sheet_of(self.upstream, model), billed, sent)
        door.meter.usage(
            self.route.name,
            self.tenant,
            billed.fresh,
            billed.read,
            billed.written,
            billed.output,
            dollars,
            upstream=upstream,
            model=model_name(model),
        )
        now = door.clock()
        if door.ledger.add(self.tenant, dollars, now):
            door.meter.stand_down(self.tenant)
            door.meter.resting(door.ledger.resting(now))
        return dollars

    def account(self) -> None:
        """Count the exchange and write its line."""
        door, edited = self.door, self.edited
        changed = edited is not None and edited.changed
        rung = edited.rung if edited is not None and changed else Rung.UNTOUCHED
        counted = edited or self.would
        tokens_in = counted.tokens_before if counted else 0
        tokens_out = edited.tokens_after if edited else tokens_in
        model = self.model
        upstream = self.upstream.name if self.upstream else ""
        rule = counted.rule if counted is not None else ""
        ended_ns = time.time_ns()
        door.meter.request(
            self.route.name, self.tenant, rung, self.reason, self.held, tokens_in, tokens_out
        )
        if counted is not None and counted.hint:
            door.meter.no_steps(self.route.name, self.tenant)
        self._count(upstream, (ended_ns - self.started_ns) / 1e9, rule)
        billed = self.reader.billed() if self.reader is not None else None
        would_save = self._would_save(billed)
        looked = self._looked_back()
        dollars = self._saved(billed, upstream) if billed is not None else 0.0
        if not (door.config.log.requests or door.reporter or door.journal):
            return
        headers = self.scope["headers"]
        server, port = self.upstream.server if self.upstream else ("", 0)
        exchange = Exchange(
            route=self.route.name,
            tenant=self.tenant,
            upstream=upstream,
            family=self.route.family,
            model=model or "",
            status=self.status,
            rung=rung,
            reason=self.reason,
            rule=rule,
            stream=self.streamed or bool(edited and edited.stream),
            resent=self.resent,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            fresh=billed.fresh if billed else 0,
            read=billed.read if billed else 0,
            written=billed.written if billed else 0,
            output=billed.output if billed else 0,
            dollars_saved=dollars,
            would_remove=self.would.tokens_before - self.would.tokens_after if self.would else 0,
            would_save=would_save,
            elided=self._newly_elided(),
            used_elided=looked.used,
            rereads=looked.again,
            after_edit=looked.steps,
            held_ms=self.held * 1e3,
            first_byte_ms=self.first_byte * 1e3,
            first_chunk_ms=self.first_chunk * 1e3 if self.streamed else 0.0,
            started_ns=self.started_ns,
            ended_ns=ended_ns,
            error=self.error,
            headers=self._told_headers(),
            traceparent=_header(headers, b"traceparent").decode("latin-1"),
            server=server,
            port=port,
            shadow=door.shadow,
        )
        door.tell(exchange)
        if door.journal is not None and counted is not None:
            # What was decided on was read: it is JSON.
            door.journal.add(exchange, self.body)


def no_upstream(family: Family, keys: frozenset[Family], *, model: bool = False) -> RefusedError:
    """Return the refusal of a request that no upstream is meant by."""
    whose = f" with a key of {' and '.join(sorted(keys))}" if keys else ""
    return RefusedError(
        404,
        "no_upstream",
        f"no upstream of this gateway takes {family} requests{whose}"
        f"{' for this model' if model else ''}; its configuration file names those it has",
    )


def _size(body: bytes) -> int:
    """Return which bodies take about as long as this one: those within a factor of four."""
    return (len(body) >> 16).bit_length() // 2


def _too_deep(depth: int) -> RefusedError:
    return RefusedError(400, TOO_DEEP, f"the body is nested more than {depth} deep")


def _header(headers: list[Header], wanted: bytes) -> bytes:
    for name, value in headers:
        if name == wanted:
            return value
    return b""
