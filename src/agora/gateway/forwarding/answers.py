"""A body sent to its upstream, once more if need be, and the answer handed back as it comes."""

import logging
import time
from typing import Any

from agora.adapters.rules.refusals import BINDING_RULES, names_history_rule
from agora.core.binding import binds
from agora.gateway.editing.refusals import Place
from agora.gateway.editing.thinking import Held, with_beta
from agora.gateway.forwarding.accounts import note_lost_thinking, note_sent
from agora.gateway.forwarding.arms import ID_HEADER
from agora.gateway.forwarding.in_flight import InFlight, header
from agora.gateway.routing.headers import response_headers
from agora.gateway.routing.routes import Header
from agora.gateway.routing.upstreams import ERROR_MOST, Answer, TruncatedError, UpstreamError
from agora.gateway.watching import quota
from agora.gateway.watching.redaction import model_name
from agora.gateway.watching.usage import UsageReader

_log = logging.getLogger("agora.gateway.forward")
THINKING_REFUSED = "thinking_refused"
"""The reason of a request sent once more without thinking, because that had been refused."""
_EVENTS = (b"text/event-stream", b"application/vnd.amazon.eventstream")
_REFUSED = frozenset({400, 422, 500})
"""How a broken history is refused: providers say 400 or 422, servers of open models also 500."""


async def converse(call: InFlight, target: str) -> None:
    """Forward the body and the answer; send the original once more if the edit is refused."""
    assert call.upstream is not None  # noqa: S101
    gateway, method = call.gateway, call.scope["method"]
    made = call.made
    note_sent(call, call.edited)
    began = gateway.clock()
    held = _held_thinking(call)
    call.held += gateway.clock() - began
    headers, body = _outgoing(call, held)
    answer = await send(call, method, target, headers, body)
    if answer.status not in _REFUSED or not (made is not None or binds(call.model)):
        if answer.status < 300 and made is not None:
            gateway.rules.accepted(call.tenant, (call.upstream.name, made.model))
        await give(call, answer)
        return
    said, whole = await _read_refusal(answer)
    rule = names_history_rule(said)
    again = _without_thinking(call, held) if rule in BINDING_RULES else None
    if again is not None:
        # The same edit: only what was thought under another prompt is in the way.
        answer.close()
        headers, body = _outgoing(call, again)
        await give(call, await send(call, method, target, headers, body))
        return
    if not rule or made is None:
        await give(call, answer, said, whole=whole)
        return
    place = (call.upstream.name, made.model)
    answer.close()
    call.resent, call.edited, call.reason = True, None, "resent"
    note_sent(call, None, instead=True)
    headers, body = _outgoing(call, _held_thinking(call))
    answer = await send(call, method, target, headers, body)
    said, whole = b"", False
    if answer.status in _REFUSED:
        said, whole = await _read_refusal(answer)
    _blame(call, rule, answer.status, said, place)
    await give(call, answer, said, whole=whole)


async def _read_refusal(answer: Answer) -> tuple[bytes, bool]:
    try:
        return await answer.read(ERROR_MOST)
    except TruncatedError:
        answer.close()
        raise


def _held_thinking(call: InFlight) -> Held:
    """Return what is sent, without thinking that was made under another prompt."""
    held = call.gateway.thinking.for_call(
        call.body,
        call.edited,
        call.reason,
        route=call.route,
        model=call.model,
        who=call.tenant,
        may_ask=call.gateway.config.compression.drop_block,
    )
    note_lost_thinking(call, held.blocks, again=held.again)
    return held


def _without_thinking(call: InFlight, refused: Held) -> Held | None:
    """Return the same request without any thinking, if it has some: sent once, never twice."""
    assert call.upstream is not None  # noqa: S101
    again = call.gateway.thinking.refused(
        call.body,
        refused.body,
        field=call.route.field,
        who=call.tenant,
        edit=call.made.key if call.made is not None else None,
    )
    if again is None:
        return None
    call.resent, call.reason = True, THINKING_REFUSED
    note_lost_thinking(call, refused.blocks + again.blocks)
    call.gateway.meter.resent(call.route.name, call.upstream.name, "thinking")
    return again


def _outgoing(call: InFlight, held: Held) -> tuple[list[Header], bytes]:
    """Return headers and body to send; the client's own bytes where nothing was changed."""
    own = held.body is call.body
    headers = call.headers_to_send(plain=not own)
    return with_beta(headers) if held.asks else headers, call.came if own else held.body


def _blame(call: InFlight, rule: str, status: int, said: bytes, place: Place) -> None:
    """Decide whose fault a refused edit was, by what became of the original."""
    gateway = call.gateway
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
        gateway.rules.refused(call.tenant, place)
    gateway.meter.resent(call.route.name, place[0], fault)
    gateway.meter.breakers(gateway.rules.open_ones + gateway.editing.open_breakers)


async def send(
    call: InFlight, method: str, target: str, headers: list[Header], body: Any
) -> Answer:
    """Send a body to its upstream, and return the answer once it begins."""
    assert call.upstream is not None  # noqa: S101
    try:
        answer = await call.gateway.client.send(call.upstream, method, target, headers, body)
    except UpstreamError:
        call.gateway.meter.upstream(call.route.name, 0, upstream=call.upstream.name)
        raise
    call.first_byte, call.head_at = answer.first_byte_seconds, time.monotonic()
    call.gateway.meter.upstream(
        call.route.name,
        answer.status,
        upstream=call.upstream.name,
        model=model_name(call.model),
        tenant=call.tenant,
        seconds=answer.first_byte_seconds,
    )
    return answer


async def give(call: InFlight, answer: Answer, read: bytes = b"", *, whole: bool = False) -> None:
    """Hand the answer back piece by piece."""
    write = call.send
    call.status = answer.status
    headers = response_headers(answer.headers)
    call.streamed = header(headers, b"content-type").startswith(_EVENTS)
    try:
        if call.route.format and 200 <= answer.status < 300:
            call.reader = UsageReader(header(headers, b"content-encoding"))
            call.quota = quota.told(headers)
        edited = call.edited
        if edited is not None and edited.changed:
            removed = edited.tokens_before - edited.tokens_after
            headers.append((b"x-agora-tokens-removed", b"%d" % removed))
        elif call.reason:
            headers.append((b"x-agora-untouched", call.reason.encode()))
        if edited is not None and edited.hint:
            headers.append((b"x-agora-hint", edited.hint.encode()))
        if edited is not None and edited.tokens_before:
            # Both, since usage in the body is the provider's: of what it got, not what came.
            headers.append((b"x-agora-tokens-before", b"%d" % edited.tokens_before))
            headers.append((b"x-agora-tokens-after", b"%d" % edited.tokens_after))
        if call.seat is not None:
            headers.append((ID_HEADER, call.seat.conversation_id.encode()))
        call.begun_answer = True
        await write({"type": "http.response.start", "status": answer.status, "headers": headers})
        if read:
            await write({"type": "http.response.body", "body": read, "more_body": True})
        if not whole:
            feed = call.reader.feed if call.reader is not None else None
            while piece := await answer.next():
                if not call.first_chunk:
                    call.first_chunk = call.first_byte + time.monotonic() - call.head_at
                await write({"type": "http.response.body", "body": piece, "more_body": True})
                if feed is not None:
                    feed(piece)
        await write({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        answer.close()
