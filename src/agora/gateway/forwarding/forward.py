"""One request from its head to the end of its answer."""

import asyncio

from agora.gateway.forwarding.accounts import account
from agora.gateway.forwarding.answers import converse
from agora.gateway.forwarding.destination import Destination, Receive, Scope, Send, target_of
from agora.gateway.forwarding.forwarder import Forwarder
from agora.gateway.forwarding.in_flight import InFlight
from agora.gateway.forwarding.prompts import decide, find_seat, settle, shadow
from agora.gateway.forwarding.unread import pass_through
from agora.gateway.intake.gate import Visit
from agora.gateway.intake.refused import RefusedError
from agora.gateway.routing.upstreams import TruncatedError, UpstreamError
from agora.gateway.watching.logs import ToldError

_MAX_UNDECIDED = 128
"""Exchanges in shadow that may be over and undecided: their bodies are held."""


class BrokenOffError(ToldError):
    """An answer was cut off, and the client has no other way to know.

    Raised through the server, which then ends the connection without the end of the body.
    """


async def forward(
    gateway: Forwarder,
    scope: Scope,
    receive: Receive,
    send: Send,
    destination: Destination,
    visit: Visit,
) -> None:
    """Serve one HTTP request."""
    call = InFlight(
        gateway, scope, receive, send, destination.route, destination, visit, visit.tenant
    )
    try:
        await _run(call)
    finally:
        if call.deciding is None:
            account(call)
        else:
            _account_later(call)


def _account_later(call: InFlight) -> None:
    """Count an exchange in shadow once it is decided; its connection is free by then."""
    undecided = call.gateway.undecided
    if len(undecided) >= _MAX_UNDECIDED and call.deciding is not None:
        call.deciding.cancel()
    # In the order of the calls: each is compared with the one before it.
    last = call.gateway.settling
    task = asyncio.ensure_future(settle(call, last.get(call.tenant)))
    last[call.tenant] = task
    undecided.add(task)

    def settled(task: "asyncio.Task[None]") -> None:
        undecided.discard(task)
        if last.get(call.tenant) is task:
            del last[call.tenant]

    task.add_done_callback(settled)


async def _run(call: InFlight) -> None:
    try:
        target = target_of(call.scope)
        if not call.route.format:
            await pass_through(call, target)
            return
        await call.read_body()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        watch = asyncio.ensure_future(call.watch(task))
        try:
            find_seat(call)
            if call.shadow:
                await shadow(call, target)
            else:
                await decide(call)
                await converse(call, target)
        except asyncio.CancelledError:
            if not call.client_left or task.uncancel():
                raise
            call.error = call.error or "client_left"
        finally:
            watch.cancel()
    except RefusedError as refused:
        await call.refuse(refused)
    except UpstreamError as failed:
        call.error = failed.kind
        late = "the upstream did not answer in time"
        said = "the upstream gave no answer" if failed.status == 502 else late
        await call.refuse(RefusedError(failed.status, call.reason, f"{said} ({failed.kind})"))
    except TruncatedError:
        call.error = "truncated"
        if not call.begun_answer:
            message = "the upstream's answer was cut off"
            await call.refuse(RefusedError(502, call.reason, message))
            return
        # The client must not take the part for the whole.
        raise BrokenOffError from None
