"""The gateway as an ASGI application: who is let in, and what is answered here."""

import asyncio
import gc
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from agora.core.scorer import Scorer
from agora.errors import AgoraError, BundleError
from agora.gateway.config import Compression, Config
from agora.gateway.edit import Edited, Editor, Job, Settings
from agora.gateway.forward import Forwarder, Receive, RefusedError, Scope, Send, read_body, say
from agora.gateway.metrics import CONTENT_TYPE, Meter
from agora.gateway.pool import Pool, Ticket
from agora.gateway.route import OTHER, Header, route_of
from agora.gateway.score import PATH as SCORE
from agora.gateway.score import Judge, Judged, Question
from agora.gateway.telemetry import spans_for
from agora.gateway.tenants import Ledger
from agora.gateway.upstream import Client
from agora.scorers.load import Unusable, load_scorer

_log = logging.getLogger(__name__)
_SWITCH_SECONDS = 0.001
"""How long a compressing thread may keep the interpreter while the loop waits for it; the default
is five times that. Chosen by reasoning, not yet by measurement."""
_RULE_SECONDS = 2.0
"""What may be waited for the rule where the prompt would be refused without it."""
_JUDGE_SECONDS = 2.0
"""What may be waited for scores that were asked for: no request of an agent is held up by it."""


def make_app(
    config: Config, *, scorer: Scorer | None = None, clock: Callable[[], float] = time.monotonic
) -> "App":
    """Return the gateway for a configuration. Run it with `uvicorn_settings(config)`."""
    meter = Meter(most_tenants=config.tenants.most)
    settings = Settings(
        scorer=scorer or _scorer(config.compression),
        keep_ratio=config.compression.keep_ratio,
        k_recent=config.compression.k_recent,
        lines=config.compression.lines,
        min_tokens=config.compression.min_tokens,
        schedule=config.compression.schedule,
        observations=config.compression.observations,
        recall=config.recall,
        depth=config.limits.depth,
    )
    editor = Editor(settings)
    pool: Pool[Job, Edited] = Pool(
        work=editor,
        workers=config.compression.workers,
        deadline_seconds=config.limits.compress_deadline_ms / 1e3,
        on_error=_tell,
    )
    no_time = Unusable(BundleError("the scorer", "is not asked: there was no time for it"))
    by_rule: Pool[Job, Edited] = Pool(
        work=Editor(replace(settings, scorer=no_time, remember_bytes=0)),
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
    secret = os.environ.get(config.tenants.secret_env, "").encode() or secrets.token_bytes(32)
    forwarder = Forwarder(
        config=config,
        client=Client(),
        again=editor.again,
        pool=pool,
        by_rule=by_rule,
        meter=meter,
        ledger=Ledger(config.tenants),
        secret=secret,
        clock=clock,
    )
    return App(config=config, forwarder=forwarder, judge=judge)


def uvicorn_settings(config: Config) -> dict[str, Any]:
    """Return the settings under which the server adds nothing of its own and ends in time."""
    return {
        "host": config.listen_host,
        "port": config.listen_port,
        "loop": "uvloop",
        "http": "httptools",
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
    draining: bool = False
    open_requests: int = field(default=0, init=False)

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
        """Tell who asks that no further requests should come; those that are here go on."""
        if not self.draining:
            self.draining = True
            self.forwarder.meter.draining()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: list[Header] = scope["headers"]
        host = next((value for name, value in headers if name == b"host"), b"")
        if not self.config.takes_host(host.decode("latin-1")):
            await say(send, OTHER, RefusedError(421, "host", "this host is not served here"))
            return
        own = _OWN.get(scope["path"])
        if own is not None:
            await own(self, send)
            return
        meter = self.forwarder.meter
        if self.open_requests >= self.config.limits.concurrent:
            route = route_of(scope["method"], scope["path"], headers)
            meter.request(route.name, "", 2, "overloaded", 0.0)
            await say(send, route, RefusedError(503, "overloaded", "too many requests at a time"))
            return
        self.open_requests += 1
        meter.opened()
        try:
            if scope["path"] == SCORE:
                await self._score(scope, receive, send)
            else:
                await self.forwarder(scope, receive, send)
        finally:
            self.open_requests -= 1
            meter.closed()

    async def _livez(self, send: Send) -> None:
        await _plain(send, 200, b"ok\n")

    async def _readyz(self, send: Send) -> None:
        if self.draining:
            await _plain(send, 503, b"draining\n")
        else:
            await _plain(send, 200, b"ready\n")

    async def _metrics(self, send: Send) -> None:
        forwarder = self.forwarder
        forwarder.meter.breakers(forwarder.rules.open_ones + forwarder.pool.open_breakers)
        forwarder.meter.resting(forwarder.ledger.resting(forwarder.clock()))
        await _plain(send, 200, forwarder.meter.render(), CONTENT_TYPE.encode())

    async def _score(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge the steps in a body; nothing is sent on."""
        began = time.monotonic()
        judged, reason = Judged(), "judged"
        try:
            judged = await self._judged(scope, receive)
            await _plain(send, 200, judged.body, b"application/json")
        except RefusedError as refused:
            reason = refused.reason
            if refused.status != 499:
                await say(send, OTHER, refused)
        finally:
            seconds = time.monotonic() - began
            self.forwarder.meter.request("score", "", judged.rung, reason, seconds)

    async def _judged(self, scope: Scope, receive: Receive) -> Judged:
        if scope["method"] != "POST":
            found = scope["method"]
            raise RefusedError(405, "method", f"{SCORE} takes POST and not {found}")
        body = await read_body(scope, receive, self.config.limits.body_bytes)
        if body is None:
            raise RefusedError(499, "client_left", "")

        def question(ticket: Ticket) -> Question:
            return Question(body=body, until=ticket.until, gone=ticket.is_gone)

        judged = await self.judge.run(question, kind=len(body).bit_length() // 2)
        if isinstance(judged, str):
            raise RefusedError(503, judged, f"there are no scores ({judged}); ask again")
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
        self.forwarder.spans = spans_for(self.config.telemetry)
        self.forwarder.pool.start()
        self.forwarder.by_rule.start()
        self.judge.start()
        await self.forwarder.client.start()

    async def stop(self) -> None:
        """Let go of threads and connections."""
        self.forwarder.pool.close()
        self.forwarder.by_rule.close()
        self.judge.close()
        await self.forwarder.client.close()
        self.forwarder.tell_all()
        if self.forwarder.spans is not None:
            await asyncio.to_thread(self.forwarder.spans.close)


_OWN = {"/livez": App._livez, "/readyz": App._readyz, "/metrics": App._metrics}


async def _plain(
    send: Send, status: int, body: bytes, content_type: bytes = b"text/plain; charset=utf-8"
) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _scorer(settings: Compression) -> Scorer:
    """Return the configured scorer, or one that says why there is none: the rule then goes on."""
    try:
        return load_scorer(settings.scorer)
    except BundleError as error:
        _log.warning("steps are chosen by the rule: %s", error)
        return Unusable(error)


def _tell(error: BaseException) -> None:
    _log.warning("a request goes on as it came: compressing failed with %s", type(error).__name__)


def _tell_of_judge(error: BaseException) -> None:
    _log.warning("steps were not judged: scoring failed with %s", type(error).__name__)
