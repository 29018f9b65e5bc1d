"""A request that is not ours to read: sent on as it comes, and its answer back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agora.gateway.body import model_of
from agora.gateway.forwarding.answers import give, send
from agora.gateway.forwarding.destination import no_upstream
from agora.gateway.forwarding.in_flight import InFlight, header
from agora.gateway.intake.bodies import check_length, too_slow
from agora.gateway.intake.refused import RefusedError


async def pass_through(call: InFlight, target: str) -> None:
    """Send a request on that is not ours to read, as it comes, and its answer back."""
    scope, limits = call.scope, call.gateway.config.limits
    check_length(scope["headers"], limits.body_bytes)
    call.reason = "not_a_prompt"
    length = header(scope["headers"], b"content-length")
    chunked = bool(header(scope["headers"], b"transfer-encoding"))
    has_body = chunked or length not in (b"", b"0")
    task = asyncio.current_task()
    assert task is not None  # noqa: S101
    body: AsyncIterator[bytes] | bytes | None = None
    call.model = call.destination.model
    call.upstream = call.upstream_for(None)
    if has_body and (call.upstream is None or _is_choice(call)) and call.destination.model is None:
        # Which upstream is meant, only the body can say.
        await call.read_body()
        call.model = model_of(call.body)
        call.upstream = call.upstream_for(call.model)
        body, has_body = call.came, False
    if call.upstream is None:
        raise no_upstream(call.route.family, call.destination.keys, model=True)
    headers = call.headers_to_send(plain=False)
    watch: asyncio.Future[None] | None = None
    if has_body:
        if length:
            headers.append((b"Content-Length", length))
        body = _upload(call, task)
    else:
        if body is None:
            body = b"" if length else None
            await call.receive()
            call.visit.take()
        watch = asyncio.ensure_future(call.watch(task))
    try:
        await give(call, await send(call, scope["method"], target, headers, body))
    except asyncio.CancelledError:
        if not (call.client_left or call.stopped) or task.uncancel():
            raise
        if call.stopped is not None:
            await call.refuse(call.stopped)
        else:
            call.error = call.error or "client_left"
    finally:
        if watch is not None:
            watch.cancel()


def _is_choice(call: InFlight) -> bool:
    """Tell whether several upstreams could be meant."""
    takes = (
        u.takes(call.route.family, call.destination.keys) for u in call.gateway.config.upstreams
    )
    return sum(takes) > 1


async def _upload(call: InFlight, task: "asyncio.Task[Any]") -> AsyncIterator[bytes]:
    def stop(refused: RefusedError) -> None:
        if not call.begun_answer:
            call.stopped = refused
            task.cancel()

    def give_way() -> None:
        stop(too_slow())

    loop, seconds = asyncio.get_running_loop(), call.gateway.config.limits.body_seconds
    timer = loop.call_later(seconds, give_way)
    try:
        with call.gateway.bodies.one(call.visit.address, call.visit.tenant, give_way) as body:
            while True:
                message = await call.receive()
                if message["type"] == "http.disconnect":
                    call.client_left = True
                    task.cancel()
                    return
                piece = message.get("body", b"")
                body.pass_on(len(piece))
                if piece:
                    yield piece
                if not message.get("more_body", False):
                    break
        call.visit.take()
    except RefusedError as refused:
        # Nobody listens here: this runs where the request is written.
        stop(refused)
    finally:
        timer.cancel()
