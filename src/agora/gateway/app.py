"""The gateway as an ASGI application: who is let in, and what is answered here."""

import asyncio
import gc
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agora.core.scorer import Scorer
from agora.errors import AgoraError
from agora.gateway.config import Client as ConfiguredClient
from agora.gateway.config import Config
from agora.gateway.editing.compress import PATH as COMPRESS
from agora.gateway.editing.compress import Compressed, CompressJob, unchanged
from agora.gateway.editing.pool import Ticket
from agora.gateway.editing.score import PATH as SCORE
from agora.gateway.editing.score import Judged, Question
from agora.gateway.editing.workers import Editing, make_editing
from agora.gateway.forwarding.arms import OUTCOME, posted, trial_for
from agora.gateway.forwarding.destination import Destination, Receive, Scope, Send, no_upstream
from agora.gateway.forwarding.forward import forward
from agora.gateway.forwarding.forwarder import Forwarder
from agora.gateway.intake.bodies import Bodies, read_body, readable
from agora.gateway.intake.gate import Gate, Visit
from agora.gateway.intake.heads import protocol
from agora.gateway.intake.refused import RefusedError, say
from agora.gateway.routing.headers import ALL
from agora.gateway.routing.keys import Keys, bearer_as_token, is_bearer, keys_of
from agora.gateway.routing.routes import (
    OTHER,
    UNKNOWN,
    Header,
    Route,
    by_path,
    route_of,
    wants_websocket,
)
from agora.gateway.routing.tenants import tenant_of
from agora.gateway.routing.upstreams import Client
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.journal import journal_for
from agora.gateway.watching.ledger import Ledger
from agora.gateway.watching.metrics import CONTENT_TYPE, Meter
from agora.gateway.watching.report import reporter_for

Clock = Callable[[], float]
_SWITCH_SECONDS = 0.001
"""How long a compressing thread may keep the interpreter while the loop waits for it; the default
is five times that. Chosen by reasoning, not yet by measurement."""
_WARM_SECONDS = 10.0
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
"""What APIs are asked by. CONNECT and TRACE would make a proxy of the gateway, or a mirror."""


def make_app(
    config: Config, *, scorer: Scorer | None = None, clock: Clock = time.monotonic
) -> "App":
    """Return the gateway for a configuration. Run it with `uvicorn_settings(config)`."""
    meter = Meter(most_tenants=config.tenants.max_named)
    return app_with(make_editing(config, scorer), config, meter, clock=clock)


def app_with(editing: Editing, config: Config, meter: Meter, *, clock: Clock) -> "App":
    """Return the gateway for a configuration around what edits."""
    meter.watch(editing.editor.occupancy)
    secret = os.environ.get(config.tenants.secret_env, "").encode() or secrets.token_bytes(32)
    forwarder = Forwarder(
        config=config,
        client=Client(),
        editing=editing,
        meter=meter,
        ledger=Ledger(config.tenants),
        secret=secret,
        bodies=Bodies(config.limits),
        clock=clock,
    )
    return App(config=config, forwarder=forwarder, gate=Gate(config=config, clock=clock))


def uvicorn_settings(config: Config) -> dict[str, Any]:
    """Return the settings under which the server adds nothing of its own and ends in time."""
    return {
        "host": config.listen_host,
        "port": config.listen_port,
        "ssl_certfile": config.listen_certificate,
        "ssl_keyfile": config.listen_key,
        "loop": "uvloop",
        "http": protocol(config.limits),
        "ws": "none",
        "lifespan": "on",
        "server_header": False,
        "date_header": False,
        "proxy_headers": False,
        "access_log": False,
        "log_config": None,
        "timeout_graceful_shutdown": config.limits.drain_seconds,
        # Longer than clients keep theirs: a connection must not end as a request sets out on it.
        "timeout_keep_alive": 75,
    }


@dataclass(slots=True, kw_only=True)
class App:
    """The application: a callable as ASGI asks for it."""

    config: Config
    forwarder: Forwarder
    gate: Gate
    draining: bool = False

    @property
    def editing(self) -> Editing:
        """What edits and judges."""
        return self.forwarder.editing

    @property
    def open_requests(self) -> int:
        """Requests that hold a slot."""
        return self.gate.open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of the server."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "http":
            await self._http(scope, receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close", "code": 1003})

    def drain(self) -> None:
        """Report not ready, so that no further requests come; those in flight continue."""
        if not self.draining:
            self.draining = True
            self.forwarder.meter.draining()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: list[Header] = scope["headers"]
        wrong = self._wrong_head(scope["method"], headers)
        if wrong is not None:
            await say(send, UNKNOWN["openai"], wrong)
            return
        own = _OWN.get(scope["path"])
        if own is None:
            await self._admit(scope, receive, send)
            return
        try:
            if own is App._metrics:
                self._client(headers)
            await own(self, send)
        except RefusedError as refused:
            await say(send, UNKNOWN["openai"], refused)

    def _wrong_head(self, method: str, headers: list[Header]) -> RefusedError | None:
        """Return why nothing of a request is looked at."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1:
            return RefusedError(400, "host", "the header Host stands there twice; send it once")
        if not self.config.takes_host(b"".join(hosts).decode("latin-1")):
            return RefusedError(421, "host", "the gateway does not answer to this host")
        if method not in _METHODS:
            return RefusedError(405, "method", f"the method is none of {', '.join(_METHODS)}")
        return None

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request if it may come in and says where it belongs."""
        headers: list[Header] = scope["headers"]
        asked = by_path(scope["method"], scope["path"])
        keys = keys_of(headers, scope["path"].encode("utf-8", "replace"), scope["query_string"])
        route = route_of(asked, headers, keys.owners, bearer=is_bearer(headers))
        if not route.known and self.config.other_paths is not None:
            route = OTHER[self.config.other_paths]
        own = _ASKED.get(scope["path"])
        meter = self.forwarder.meter
        try:
            visit = self._visit(scope)
            if own is None:
                self._check_destination(route, keys, headers)
            self.gate.admit(visit)
        except RefusedError as refused:
            meter.request(route.name, "", 2, refused.reason, 0.0)
            self._tell(route, refused)
            upgrade = ((b"upgrade", b"HTTP/1.1"),) if refused.status == 426 else ()
            await say(send, route, refused, upgrade)
            return
        meter.opened()
        try:
            if own is not None:
                await own(self, scope, receive, send, visit)
            else:
                destination = Destination(route=route, model=asked.model, keys=keys.owners)
                await forward(self.forwarder, scope, receive, send, destination, visit)
        finally:
            visit.leave()
            meter.closed()

    def _tell(self, route: Route, refused: RefusedError) -> None:
        """Write the line of a request that was not let in."""
        if self.config.log.requests or self.forwarder.reporter is not None:
            now = time.time_ns()
            self.forwarder.tell(
                Exchange(
                    route=route.name,
                    tenant="",
                    family=route.family,
                    status=refused.status,
                    reason=refused.reason,
                    started_ns=now,
                    ended_ns=now,
                )
            )

    def _visit(self, scope: Scope) -> Visit:
        headers = scope["headers"]
        asked_here = scope["path"] in _ASKED
        client = self._client(headers) if asked_here else self.gate.client_of(headers)
        if client is not None:
            tenant = client.name
        else:
            tenant = tenant_of(scope["headers"], self.config.tenants, self.forwarder.secret)
        return Visit(self.gate, tenant, (scope.get("client") or ("",))[0], client)

    def _client(self, headers: list[Header]) -> ConfiguredClient | None:
        """Return whose token a request shows that nothing is forwarded of.

        A bearer token can only be the gateway's own there.
        """
        return self.gate.client_of([*headers, *bearer_as_token(headers)])

    def _check_destination(self, route: Route, keys: Keys, headers: list[Header]) -> None:
        """Refuse what no upstream can be meant by, before anything of it is read."""
        if wants_websocket(headers):
            raise RefusedError(426, "websocket", "WebSockets are not supported; use HTTP")
        if not route.known:
            raise RefusedError(
                404,
                "unknown_path",
                "nothing says which provider this request is for: its path is no path of an API "
                "that is known here, or its headers and its key do not tell whose",
            )
        if keys.stray and ALL not in self.forwarder.also:
            raise RefusedError(
                400,
                "stray_key",
                f"{keys.stray}; nothing says whose key it is, so it is not forwarded: send one key "
                "the way its provider's own clients do",
            )
        if not any(upstream.takes(route.family, keys.owners) for upstream in self.config.upstreams):
            raise no_upstream(route.family, keys.owners)

    async def _livez(self, send: Send) -> None:
        await _plain(send, 200, b"ok\n")

    async def _readyz(self, send: Send) -> None:
        if self.draining:
            await _plain(send, 503, b"draining\n")
        elif self.gate.full:
            await _plain(send, 503, b"full\n")
        else:
            await _plain(send, 200, b"ready\n")

    async def _metrics(self, send: Send) -> None:
        forwarder = self.forwarder
        forwarder.meter.breakers(forwarder.rules.open_ones + forwarder.editing.open_breakers)
        forwarder.meter.resting(forwarder.ledger.resting(forwarder.clock()))
        await _plain(send, 200, forwarder.meter.render(), CONTENT_TYPE.encode())

    async def _score(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        """Judge the steps in a body; nothing is sent on."""
        began = time.time_ns()
        judged, reason, status = Judged(), "judged", 200
        try:
            judged = await self._judged(scope, receive, visit)
            await _plain(send, 200, judged.body, b"application/json")
        except RefusedError as refused:
            reason, status = refused.reason, refused.status
            if refused.status != 499:
                await say(send, UNKNOWN["openai"], refused)
        finally:
            self.forwarder.tell_own(
                Exchange(
                    route="score",
                    tenant="",
                    status=status,
                    rung=judged.rung,
                    reason=reason,
                    started_ns=began,
                )
            )

    async def _compress(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        """Compress the messages in a body and hand them back; nothing is sent on."""
        began = time.time_ns()
        compressed, reason, status = Compressed(), "", 200
        try:
            compressed = await self._compressed(scope, receive, visit)
            reason = compressed.reason
            await _plain(send, 200, compressed.body, b"application/json")
        except RefusedError as refused:
            reason, status = refused.reason, refused.status
            if refused.status != 499:
                await say(send, UNKNOWN["openai"], refused)
        finally:
            self.forwarder.tell_own(
                Exchange(
                    route="compress",
                    tenant=visit.tenant,
                    status=status,
                    model=compressed.model,
                    rung=compressed.rung,
                    reason=reason,
                    tokens_in=compressed.tokens_before,
                    tokens_out=compressed.tokens_after,
                    started_ns=began,
                )
            )

    async def _outcome(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        """Take down how a conversation ended, for the experiment that it is part of."""
        try:
            body = await self._body_of(scope, receive, visit, OUTCOME)
            told = posted(self.forwarder.trial, visit.tenant, body)
            await _plain(send, 202, told, b"application/json")
        except RefusedError as refused:
            if refused.status != 499:
                await say(send, UNKNOWN["openai"], refused)

    async def _compressed(self, scope: Scope, receive: Receive, visit: Visit) -> Compressed:
        body = await self._body_of(scope, receive, visit, COMPRESS)
        if not self.config.compression.enabled:
            outcome: Compressed | str = "disabled"
        else:

            def job(ticket: Ticket) -> CompressJob:
                return CompressJob(body=body, until=ticket.until, gone=ticket.is_gone)

            outcome = await self.editing.compress.run(
                job, owner=visit.tenant, kind=len(body).bit_length() // 2
            )
        if isinstance(outcome, str):
            # The caller has a request to send on: its own messages are a good answer.
            own = unchanged(body, outcome)
            if not own:
                raise RefusedError(400, "unread", "there are no messages in the body")
            return Compressed(own, outcome)
        if outcome.problem:
            raise RefusedError(400, "unread", outcome.problem)
        return outcome

    async def _body_of(self, scope: Scope, receive: Receive, visit: Visit, path: str) -> bytes:
        """Return the body of a request that is answered here."""
        if scope["method"] != "POST":
            raise RefusedError(405, "method", f"{path} takes POST, not {scope['method']}")
        headers, most = scope["headers"], self.config.limits.body_bytes
        came = await read_body(headers, receive, self.forwarder.bodies, visit.address, visit.tenant)
        if came is None:
            raise RefusedError(499, "client_left", "")
        visit.take()
        return await readable(came, headers, most)

    async def _judged(self, scope: Scope, receive: Receive, visit: Visit) -> Judged:
        body = await self._body_of(scope, receive, visit, SCORE)

        def question(ticket: Ticket) -> Question:
            return Question(body=body, until=ticket.until, gone=ticket.is_gone)

        judged = await self.editing.judge.run(
            question, owner=visit.tenant, kind=len(body).bit_length() // 2
        )
        if isinstance(judged, str):
            raise RefusedError(503, judged, f"no scores ({judged}); try again")
        if judged.problem:
            raise RefusedError(400, "unread", judged.problem)
        return judged

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        before = sys.getswitchinterval()
        try:
            await self.start()
        except AgoraError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        sys.setswitchinterval(_SWITCH_SECONDS)
        # What is loaded by now stays: the collector need not look at it with every request.
        gc.freeze()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self.drain()
        await self.stop()
        gc.unfreeze()
        sys.setswitchinterval(before)
        await send({"type": "lifespan.shutdown.complete"})

    async def start(self) -> None:
        """Make ready to serve; needs a running loop."""
        self.forwarder.reporter = reporter_for(self.config.telemetry)
        self.forwarder.journal = journal_for(self.config.journal, self.forwarder.meter.journal_lost)
        running = self.forwarder
        running.trial = trial_for(self.config, running.secret, running.meter)
        for pool in self.editing.pools:
            pool.start()
        await self.forwarder.client.start()
        await asyncio.to_thread(self.forwarder.pool.wait_until_warm, _WARM_SECONDS)

    async def stop(self) -> None:
        """Let go of threads and connections."""
        for pool in self.editing.pools:
            pool.close()
        for task in tuple(self.forwarder.undecided):
            task.cancel()
        await self.forwarder.client.close()
        self.forwarder.tell_all()
        if self.forwarder.reporter is not None:
            await asyncio.to_thread(self.forwarder.reporter.close)
        if self.forwarder.journal is not None:
            await asyncio.to_thread(self.forwarder.journal.close)
        if self.forwarder.trial is not None:
            await asyncio.to_thread(self.forwarder.trial.close)


_ASKED = {SCORE: App._score, COMPRESS: App._compress, OUTCOME: App._outcome}
_OWN = {"/livez": App._livez, "/readyz": App._readyz, "/metrics": App._metrics}


async def _plain(
    send: Send, status: int, body: bytes, content_type: bytes = b"text/plain; charset=utf-8"
) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
