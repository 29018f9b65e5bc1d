"""The gateway as an ASGI application: who is let in, and what is answered here."""

import asyncio
import gc
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from agora.core.scorer import Scorer
from agora.errors import AgoraError, BundleError
from agora.gateway.compress import PATH as COMPRESS
from agora.gateway.compress import Order, Squeeze, Squeezed, unchanged
from agora.gateway.config import Compression, Config
from agora.gateway.credentials import bearer_as_token, is_bearer, owners
from agora.gateway.edit import Edited, Editor, EditorSettings, Job
from agora.gateway.forward import SHADOW_SECONDS, Forwarder, Receive, Scope, Send, Way, no_upstream
from agora.gateway.gate import Gate, Visit
from agora.gateway.heads import protocol
from agora.gateway.journal import journal_for
from agora.gateway.logs import Exchange
from agora.gateway.metrics import CONTENT_TYPE, Meter
from agora.gateway.pool import Pool, Ticket
from agora.gateway.reading import Reading, read_body, readable
from agora.gateway.refused import RefusedError, say
from agora.gateway.report import reporter_for
from agora.gateway.route import (
    OTHER,
    UNKNOWN,
    Family,
    Header,
    Route,
    by_path,
    route_of,
    wants_websocket,
)
from agora.gateway.score import PATH as SCORE
from agora.gateway.score import Judge, Judged, Question
from agora.gateway.tenants import Ledger, tenant_of
from agora.gateway.upstream import Client
from agora.scorers.load import Unusable, load_scorer

_log = logging.getLogger(__name__)
_SWITCH_SECONDS = 0.001
"""How long a compressing thread may keep the interpreter while the loop waits for it; the default
is five times that. Chosen by reasoning, not yet by measurement."""
_RULE_SECONDS = 2.0
"""What may be waited for the rule where the prompt would be refused without it."""
_STUCK_SECONDS = 5.0
_FINISH_SECONDS = 4.0
"""How long an edit that came too late for its call is worked on, for the next one."""
_WARM_SECONDS = 10.0
_JUDGE_SECONDS = 2.0
"""What may be waited for scores that were asked for: no request of an agent is held up by it."""


def make_app(
    config: Config, *, scorer: Scorer | None = None, clock: Callable[[], float] = time.monotonic
) -> "App":
    """Return the gateway for a configuration. Run it with `uvicorn_settings(config)`."""
    meter = Meter(most_tenants=config.tenants.most)
    return app_with(make_editing(config, scorer), config, meter, clock=clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Editing:
    """What edits and judges, with what it remembers: it may outlive a configuration."""

    editor: Editor
    pool: Pool[Job, Edited]
    by_rule: Pool[Job, Edited]
    judge: Pool[Question, Judged]
    squeeze: Pool[Order, Squeezed]


def make_editing(config: Config, scorer: Scorer | None = None) -> Editing:
    """Return what edits under a configuration; none of its threads runs yet."""
    settings = EditorSettings(
        scorer=scorer or _scorer(config.compression),
        keep_ratio=config.compression.keep_ratio,
        k_recent=config.compression.k_recent,
        lines=config.compression.lines,
        least_tokens=config.compression.least_tokens,
        schedule=config.compression.schedule,
        observations=config.compression.observations,
        recall=config.recall,
        recall_agents=config.recall_agents,
        depth=config.limits.depth,
        shadow=config.compression.mode == "shadow",
        memory_bytes=config.compression.memory_mb << 20,
    )
    editor = Editor(settings)
    pool: Pool[Job, Edited] = Pool(
        work=editor,
        workers=config.compression.workers,
        deadline_seconds=config.limits.compress_deadline_ms / 1e3,
        finish_seconds=SHADOW_SECONDS if settings.shadow else _FINISH_SECONDS,
        stuck_seconds=max(_STUCK_SECONDS, SHADOW_SECONDS if settings.shadow else 0.0),
        warm=editor.warm,
        on_error=_tell,
    )
    no_time = Unusable(BundleError("the scorer", "was skipped: there was no time for it"))
    by_rule: Pool[Job, Edited] = Pool(
        work=Editor(replace(settings, scorer=no_time, memory_bytes=0)),
        deadline_seconds=_RULE_SECONDS,
        on_error=_tell,
    )
    judge: Pool[Question, Judged] = Pool(
        work=Judge(
            scorer=settings.scorer,
            counter=editor.counter,
            k_recent=settings.k_recent,
            depth=settings.depth,
        ),
        deadline_seconds=_JUDGE_SECONDS,
        on_error=_tell_of_judge,
    )
    squeeze: Pool[Order, Squeezed] = Pool(
        work=Squeeze(settings=settings, counter=editor.counter, sheets=config.sheets),
        workers=config.compression.workers,
        deadline_seconds=config.limits.restore_deadline_ms / 1e3,
        waiting_most=64,
        on_error=_tell,
    )
    return Editing(editor=editor, pool=pool, by_rule=by_rule, judge=judge, squeeze=squeeze)


def app_with(
    editing: Editing, config: Config, meter: Meter, *, clock: Callable[[], float]
) -> "App":
    """Return the gateway for a configuration around what edits."""
    editor, pool = editing.editor, editing.pool
    meter.watch(editor.occupancy)
    by_rule, judge = editing.by_rule, editing.judge
    secret = os.environ.get(config.tenants.secret_env, "").encode() or secrets.token_bytes(32)
    forwarder = Forwarder(
        config=config,
        client=Client(),
        look=editor.look,
        continue_edit=editor.continue_edit,
        pool=pool,
        by_rule=by_rule,
        meter=meter,
        ledger=Ledger(config.tenants),
        secret=secret,
        reading=Reading(config.limits),
        clock=clock,
    )
    gate = Gate(config=config, clock=clock)
    return App(config=config, forwarder=forwarder, judge=judge, squeeze=editing.squeeze, gate=gate)


def uvicorn_settings(config: Config) -> dict[str, Any]:
    """Return the settings under which the server adds nothing of its own and ends in time."""
    return {
        "host": config.listen_host,
        "port": config.listen_port,
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
    judge: Pool[Question, Judged]
    squeeze: Pool[Order, Squeezed]
    gate: Gate
    draining: bool = False

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
        host = next((value for name, value in headers if name == b"host"), b"")
        if not self.config.takes_host(host.decode("latin-1")):
            refused = RefusedError(421, "host", "the gateway does not answer to this host")
            await say(send, UNKNOWN["openai"], refused)
            return
        own = _OWN.get(scope["path"])
        if own is not None:
            await own(self, send)
            return
        await self._admit(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request if it may come in and says where it belongs."""
        headers: list[Header] = scope["headers"]
        asked = by_path(scope["method"], scope["path"])
        keys = owners(headers, scope["query_string"])
        route = route_of(asked, headers, keys, bearer=is_bearer(headers))
        if not route.known and self.config.other_paths is not None:
            route = OTHER[self.config.other_paths]
        own = _ASKED.get(scope["path"])
        meter = self.forwarder.meter
        try:
            visit = self._visit(scope)
            if own is None:
                self._check_way(route, keys, headers)
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
                await self.forwarder(
                    scope, receive, send, Way(route=route, model=asked.model, keys=keys), visit
                )
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
        if scope["path"] == COMPRESS:
            # Nothing goes on from there: a bearer token can only be the gateway's own.
            headers = [*headers, *bearer_as_token(headers)]
        client = self.gate.client_of(headers)
        if client is not None:
            tenant = client.name
        else:
            tenant = tenant_of(scope["headers"], self.config.tenants, self.forwarder.secret)
        return Visit(self.gate, tenant, (scope.get("client") or ("",))[0], client)

    def _check_way(self, route: Route, keys: frozenset[Family], headers: list[Header]) -> None:
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
        if not any(upstream.takes(route.family, keys) for upstream in self.config.upstreams):
            raise no_upstream(route.family, keys)

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
        forwarder.meter.breakers(forwarder.rules.open_ones + forwarder.pool.open_breakers)
        forwarder.meter.resting(forwarder.ledger.resting(forwarder.clock()))
        await _plain(send, 200, forwarder.meter.render(), CONTENT_TYPE.encode())

    async def _score(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        """Judge the steps in a body; nothing is sent on."""
        began = time.monotonic()
        judged, reason = Judged(), "judged"
        try:
            judged = await self._judged(scope, receive, visit)
            await _plain(send, 200, judged.body, b"application/json")
        except RefusedError as refused:
            reason = refused.reason
            if refused.status != 499:
                await say(send, UNKNOWN["openai"], refused)
        finally:
            seconds = time.monotonic() - began
            self.forwarder.meter.request("score", "", judged.rung, reason, seconds)

    async def _compress(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        """Compress the messages in a body and hand them back; nothing is sent on."""
        began = time.monotonic()
        squeezed, reason = Squeezed(), ""
        try:
            squeezed = await self._squeezed(scope, receive, visit)
            reason = squeezed.reason
            await _plain(send, 200, squeezed.body, b"application/json")
        except RefusedError as refused:
            reason = refused.reason
            if refused.status != 499:
                await say(send, UNKNOWN["openai"], refused)
        finally:
            seconds = time.monotonic() - began
            self.forwarder.meter.request(
                "compress",
                visit.tenant,
                squeezed.rung,
                reason,
                seconds,
                squeezed.tokens_before,
                squeezed.tokens_after,
            )

    async def _squeezed(self, scope: Scope, receive: Receive, visit: Visit) -> Squeezed:
        body = await self._body_of(scope, receive, visit, COMPRESS)
        if not self.config.compression.enabled:
            outcome: Squeezed | str = "disabled"
        else:

            def order(ticket: Ticket) -> Order:
                return Order(body=body, until=ticket.until, gone=ticket.is_gone)

            outcome = await self.squeeze.run(order, kind=len(body).bit_length() // 2)
        if isinstance(outcome, str):
            # The caller has a request to send on: its own messages are a good answer.
            own = unchanged(body, outcome)
            if not own:
                raise RefusedError(400, "unread", "there are no messages in the body")
            return Squeezed(own, outcome)
        if outcome.problem:
            raise RefusedError(400, "unread", outcome.problem)
        return outcome

    async def _body_of(self, scope: Scope, receive: Receive, visit: Visit, path: str) -> bytes:
        """Return the body of a request that is answered here."""
        if scope["method"] != "POST":
            raise RefusedError(405, "method", f"{path} takes POST, not {scope['method']}")
        headers, most = scope["headers"], self.config.limits.body_bytes
        came = await read_body(headers, receive, self.forwarder.reading, visit.address)
        if came is None:
            raise RefusedError(499, "client_left", "")
        visit.take()
        return await readable(came, headers, most)

    async def _judged(self, scope: Scope, receive: Receive, visit: Visit) -> Judged:
        body = await self._body_of(scope, receive, visit, SCORE)

        def question(ticket: Ticket) -> Question:
            return Question(body=body, until=ticket.until, gone=ticket.is_gone)

        judged = await self.judge.run(question, kind=len(body).bit_length() // 2)
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
        self.forwarder.journal = journal_for(self.config.journal)
        self.forwarder.pool.start()
        self.forwarder.by_rule.start()
        self.judge.start()
        self.squeeze.start()
        await self.forwarder.client.start()
        await asyncio.to_thread(self.forwarder.pool.wait_until_warm, _WARM_SECONDS)

    async def stop(self) -> None:
        """Let go of threads and connections."""
        self.forwarder.pool.close()
        self.forwarder.by_rule.close()
        self.judge.close()
        self.squeeze.close()
        for task in tuple(self.forwarder.undecided):
            task.cancel()
        await self.forwarder.client.close()
        self.forwarder.tell_all()
        if self.forwarder.reporter is not None:
            await asyncio.to_thread(self.forwarder.reporter.close)
        if self.forwarder.journal is not None:
            await asyncio.to_thread(self.forwarder.journal.close)


_ASKED = {SCORE: App._score, COMPRESS: App._compress}
_OWN = {"/livez": App._livez, "/readyz": App._readyz, "/metrics": App._metrics}


async def _plain(
    send: Send, status: int, body: bytes, content_type: bytes = b"text/plain; charset=utf-8"
) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _scorer(settings: Compression) -> Scorer:
    """Return the configured scorer, or one that says why there is none (then the rule decides)."""
    try:
        return load_scorer(settings.scorer)
    except BundleError as error:
        _log.warning("steps are chosen by the fallback rule: %s", error)
        return Unusable(error)


def _tell(error: BaseException) -> None:
    _log.warning(
        "a request is forwarded unchanged: compressing failed with %s", type(error).__name__
    )


def _tell_of_judge(error: BaseException) -> None:
    _log.warning("steps were not scored: scoring failed with %s", type(error).__name__)
