"""One exchange: a request read, edited and sent on, its answer handed back as it comes."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agora.core.compression import Rung
from agora.core.prices import PriceSheet
from agora.gateway.body import deeper_than, encode, model_before, model_behind, model_of
from agora.gateway.config import Config, Upstream
from agora.gateway.edit import TOO_DEEP, Edited, Job
from agora.gateway.logs import Exchange, log_exchange
from agora.gateway.metrics import Meter
from agora.gateway.pool import Breaker, Breakers, Pool, Ticket
from agora.gateway.route import Header, Route, bypassed, homeward, onward, refusal, route_of
from agora.gateway.telemetry import Spans
from agora.gateway.tenants import Ledger, net_saving, tenant_of
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
_NO_TICKET = Ticket(float("inf"))
_REFUSED = frozenset({400, 422, 500})
"""How a broken history is refused: providers say 400 or 422, servers of open models also 500."""


class RefusedError(Exception):
    """The gateway itself says no."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(slots=True, kw_only=True)
class Forwarder:
    """Everything that exchanges share. One for each process, on its event loop."""

    config: Config
    client: Client
    again: Callable[[Job], Edited | None]
    """What becomes of a body that continues one seen before, at once."""
    pool: Pool[Job, Edited]
    by_rule: Pool[Job, Edited]
    """The rung below, for prompts that would be refused as they are."""
    meter: Meter
    ledger: Ledger
    secret: bytes
    spans: Spans | None = None
    clock: Callable[[], float] = time.monotonic
    rules: Breakers = field(
        default_factory=lambda: Breakers(lambda: Breaker(failures=1, cool_seconds=60.0))
    )
    """One for each upstream and model: open after an edited request was refused."""
    sheet_of: Callable[[Upstream, str | None], PriceSheet] = field(init=False)
    untold: list[Exchange] = field(default_factory=list, init=False)
    """Exchanges whose lines are not written yet."""

    def __post_init__(self) -> None:
        self.sheet_of = lru_cache(maxsize=1_024)(self.config.sheet_for)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        headers: list[Header] = scope["headers"]
        route = route_of(scope["method"], scope["path"], headers)
        exchange = _Exchange(self, scope, receive, send, route)
        try:
            await exchange.run()
        finally:
            exchange.account()

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
        """Write all lines and spans that are not written yet."""
        exchanges, self.untold = self.untold, []
        for exchange in exchanges:
            log_exchange(exchange, self.config.log)
            if self.spans is not None:
                self.spans.record(exchange)

    def target(self, scope: Scope) -> str:
        """Return the path and query that go on, as the client wrote them."""
        path = scope["path"]
        raw = (scope.get("raw_path") or path.encode()).decode("latin-1")
        if ("/../" in f"{path}/" or "/./" in f"{path}/") or any(c in raw for c in "#\\\r\n\0 "):
            raise RefusedError(400, "path", "the path of the request is not plain")
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
    tenant: str = ""
    body: bytes = b""
    edited: Edited | None = None
    reason: str = ""
    upstream: Upstream | None = None
    model: str | None = None
    status: int = 0
    resent: bool = False
    held: float = 0.0
    first_byte: float = 0.0
    error: str = ""
    reader: UsageReader | None = None
    began: float = field(default_factory=time.monotonic)
    started_ns: int = field(default_factory=time.time_ns)
    begun_answer: bool = False
    client_left: bool = False

    async def run(self) -> None:
        door, config = self.door, self.door.config
        try:
            self.tenant = tenant_of(self.scope["headers"], config.tenants, door.secret)
            target = door.target(self.scope)
            if not self.route.format:
                await self._pass_through(target)
                return
            await self._read_body()
            task = asyncio.current_task()
            assert task is not None  # noqa: S101
            watch = asyncio.ensure_future(self._watch(task))
            try:
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
            # The server ends the connection without the end of the body: the client must not
            # take the part for the whole.
            raise

    async def _read_body(self) -> None:
        limits = self.door.config.limits
        body = await read_body(self.scope, self.receive, limits.body_bytes)
        if body is None:
            self.client_left = True
            self.error = "client_left"
            raise RefusedError(499, "client_left", "")
        self.body = body

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
        if not self.reason:
            outcome = self._at_once() or await door.pool.run(self._job, kind=_size(self.body))
            if isinstance(outcome, str) and self._beyond_window():
                outcome = await door.by_rule.run(self._job)
            if isinstance(outcome, str):
                self.reason = outcome
            else:
                self.reason, model = outcome.reason, outcome.model
                if self.reason == TOO_DEEP:
                    raise _too_deep(config.limits.depth)
                self.edited = outcome
        if model is None:
            model = self._peek()
        self.model = model
        self.upstream = config.upstream_for(self.route.family, model)
        if self.upstream is None:
            raise RefusedError(
                404,
                "no_upstream",
                f"no upstream of this gateway takes {self.route.family} requests for this model; "
                "its configuration file names those it has",
            )
        changed = self.edited is not None and self.edited.changed
        if changed and not door.rules.allows((self.upstream.name, model)):
            self.edited, self.reason = None, "rule_breaker_open"
        self.held = door.clock() - began

    def _why_not(self) -> str:
        """Return why the body is not even read, or nothing."""
        config = self.door.config
        if not config.compression.enabled:
            return "disabled"
        if bypassed(self.scope["headers"]):
            return "bypass"
        if not config.recall and len(self.body) < config.compression.min_tokens * _BYTES_PER_TOKEN:
            if deeper_than(self.body, config.limits.depth):
                raise _too_deep(config.limits.depth)
            return "below_threshold"
        if not self.door.ledger.may_compress(self.tenant, self.door.clock()):
            return "stand_down"
        return ""

    def _job(self, ticket: Ticket) -> Job:
        config, sheet_of, family = self.door.config, self.door.sheet_of, self.route.family

        def prices(model: str | None) -> PriceSheet:
            upstream = config.upstream_for(family, model) or config.upstreams[0]
            return sheet_of(upstream, model)

        return Job(
            body=self.body,
            route=self.route,
            sheet_of=prices,
            tenant=self.tenant,
            until=ticket.until,
            gone=ticket.is_gone,
        )

    def _at_once(self) -> Edited | None:
        """Return what is remembered; whatever goes wrong there, the pool looks at it anew."""
        try:
            return self.door.again(self._job(_NO_TICKET))
        except Exception as error:
            _log.warning("the memory of conversations failed with %s", type(error).__name__)
            return None

    def _beyond_window(self) -> bool:
        """Tell whether the prompt would be refused as it is: then even the rule is better."""
        config, model = self.door.config, model_of(self.body)
        upstream = config.upstream_for(self.route.family, model)
        window = None if upstream is None else self.door.sheet_of(upstream, model).window
        return window is not None and len(self.body) > window * _BYTES_PER_TOKEN

    def _peek(self) -> str | None:
        """Return the model, by a look at the whole body only if it says where a request goes."""
        upstreams = self.door.config.upstreams
        if len(upstreams) > 1 or upstreams[0].models != ("*",):
            return model_of(self.body)
        return model_before(self.body) or model_behind(self.body)

    async def _converse(self, target: str) -> None:
        """Send the body on and the answer back; once more as it came, if the edit is refused."""
        assert self.upstream is not None  # noqa: S101
        door, method = self.door, self.scope["method"]
        headers = onward(self.scope["headers"])
        edited = self.edited
        body = self.body if edited is None else edited.body
        answer = await self._send(method, target, headers, body)
        if edited is None or not edited.changed:
            await self._give(answer)
            return
        key = (self.upstream.name, edited.model)
        if answer.status not in _REFUSED:
            if answer.status < 300:
                door.rules.succeeded(key)
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
        _log.warning("an edited request was refused by rule %s; sent again as it came", rule)
        door.rules.failed(key)
        door.meter.resent(self.route.name)
        door.meter.breakers(door.rules.open_ones + door.pool.open_breakers)
        self.resent, self.edited, self.reason = True, None, "resent"
        await self._give(await self._send(method, target, headers, self.body))

    async def _send(self, method: str, target: str, headers: list[Header], body: Any) -> Answer:
        assert self.upstream is not None  # noqa: S101
        try:
            answer = await self.door.client.send(self.upstream, method, target, headers, body)
        except UpstreamError:
            self.door.meter.upstream(self.route.name, 0)
            raise
        self.first_byte = answer.first_byte_seconds
        self.door.meter.upstream(
            self.route.name, answer.status, tenant=self.tenant, seconds=answer.first_byte_seconds
        )
        return answer

    async def _give(self, answer: Answer, read: bytes = b"", *, whole: bool = False) -> None:
        """Hand the answer back piece by piece."""
        send = self.send
        self.status = answer.status
        headers = homeward(answer.headers)
        try:
            if self.route.format and 200 <= answer.status < 300:
                self.reader = UsageReader(_header(headers, b"content-encoding"))
            edited = self.edited
            if edited is not None and edited.changed:
                removed = edited.tokens_before - edited.tokens_after
                headers.append((b"x-agora-tokens-removed", b"%d" % removed))
            elif self.reason:
                headers.append((b"x-agora-untouched", self.reason.encode()))
            self.begun_answer = True
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            if read:
                await send({"type": "http.response.body", "body": read, "more_body": True})
            if not whole:
                feed = self.reader.feed if self.reader is not None else None
                while piece := await answer.next():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                    if feed is not None:
                        feed(piece)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            answer.close()

    async def _pass_through(self, target: str) -> None:
        """Send a request on that is not ours to read, as it comes, and its answer back."""
        config = self.door.config
        _check_length(self.scope["headers"], config.limits.body_bytes)
        self.reason = "not_a_prompt"
        self.upstream = config.upstream_for(self.route.family) or config.upstreams[0]
        headers = onward(self.scope["headers"])
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        length = _header(self.scope["headers"], b"content-length")
        chunked = bool(_header(self.scope["headers"], b"transfer-encoding"))
        watch: asyncio.Future[None] | None = None
        body: AsyncIterator[bytes] | bytes | None = None
        if chunked or length not in (b"", b"0"):
            if length:
                headers.append((b"Content-Length", length))
            body = self._upload(config.limits.body_bytes, task)
        else:
            if length:
                body = b""
            await self.receive()
            watch = asyncio.ensure_future(self._watch(task))
        try:
            await self._give(await self._send(self.scope["method"], target, headers, body))
        except asyncio.CancelledError:
            if not self.client_left or task.uncancel():
                raise
            self.error = self.error or "client_left"
        finally:
            if watch is not None:
                watch.cancel()

    async def _upload(self, most: int, task: "asyncio.Task[Any]") -> AsyncIterator[bytes]:
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                self.client_left = True
                task.cancel()
                return
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise OSError("the body is longer than the limit")
            if piece:
                yield piece
            if not message.get("more_body", False):
                return

    async def _refuse(self, refused: RefusedError) -> None:
        self.status = refused.status
        self.reason = refused.reason or self.reason
        if self.begun_answer or self.client_left:
            return
        self.begun_answer = True
        await say(self.send, self.route, refused)

    def account(self) -> None:
        """Count the exchange and write its line."""
        door, edited = self.door, self.edited
        changed = edited is not None and edited.changed
        rung = edited.rung if edited is not None and changed else Rung.UNTOUCHED
        tokens_in = edited.tokens_before if edited else 0
        tokens_out = edited.tokens_after if edited else 0
        model = self.model
        door.meter.request(
            self.route.name, self.tenant, rung, self.reason, self.held, tokens_in, tokens_out
        )
        billed = self.reader.billed() if self.reader is not None else None
        dollars = 0.0
        if billed is not None:
            if edited is not None and changed and self.upstream is not None:
                dollars = net_saving(
                    door.sheet_of(self.upstream, model),
                    billed,
                    tokens_in=tokens_in,
                    tokens_out=tokens_out,
                    newest=edited.newest_tokens,
                    edited=edited.at_epoch,
                )
            door.meter.usage(
                self.route.name,
                self.tenant,
                billed.fresh,
                billed.read,
                billed.written,
                billed.output,
                dollars,
            )
            now = door.clock()
            if door.ledger.add(self.tenant, dollars, now):
                door.meter.stand_down(self.tenant)
                door.meter.resting(door.ledger.resting(now))
        if not door.config.log.requests and door.spans is None:
            return
        headers = self.scope["headers"]
        exchange = Exchange(
            route=self.route.name,
            tenant=self.tenant,
            upstream=self.upstream.name if self.upstream else "",
            family=self.route.family,
            model=model or "",
            status=self.status,
            rung=rung,
            reason=self.reason,
            stream=bool(edited and edited.stream),
            resent=self.resent,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            fresh=billed.fresh if billed else 0,
            read=billed.read if billed else 0,
            written=billed.written if billed else 0,
            output=billed.output if billed else 0,
            dollars_saved=dollars,
            held_ms=self.held * 1e3,
            first_byte_ms=self.first_byte * 1e3,
            started_ns=self.started_ns,
            ended_ns=time.time_ns(),
            error=self.error,
            headers=tuple(
                (text, value.decode("latin-1"))
                for name, value in headers
                if (text := name.decode("latin-1")) in door.config.log.headers
            ),
            traceparent=_header(headers, b"traceparent").decode("latin-1"),
        )
        door.tell(exchange)


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes | None:
    """Return the whole body of a request; None when the client left before its end.

    Raises:
        RefusedError: it has more than `most` bytes.
    """
    _check_length(scope["headers"], most)
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece = message.get("body", b"")
        if piece:
            size += len(piece)
            if size > most:
                raise _too_long(most)
            pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def say(send: Send, route: Route, refused: RefusedError) -> None:
    """Answer with an error of our own, in the words of the API that was asked."""
    body = encode(refusal(route.family, refused.status, f"agora gateway: {refused.message}"))
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        # What is left of the request is not read.
        (b"connection", b"close"),
    ]
    if refused.status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _size(body: bytes) -> int:
    """Return which bodies take about as long as this one: those within a factor of four."""
    return (len(body) >> 16).bit_length() // 2


def _check_length(headers: list[Header], most: int) -> None:
    length = _header(headers, b"content-length")
    if length.isdigit() and int(length) > most:
        raise _too_long(most)


def _too_long(most: int) -> RefusedError:
    return RefusedError(413, "too_long", f"the body has more than {most:,} bytes")


def _too_deep(depth: int) -> RefusedError:
    return RefusedError(400, TOO_DEEP, f"the body is nested more than {depth} deep")


def _header(headers: list[Header], wanted: bytes) -> bytes:
    for name, value in headers:
        if name == wanted:
            return value
    return b""
