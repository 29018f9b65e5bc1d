"""What one request did to its conversation and to the bill, and its record when it is over."""

import time
from dataclasses import replace

from agora.core.compression import Rung
from agora.core.prices import PriceSheet
from agora.gateway.config import Upstream
from agora.gateway.editing.deciding import LATE, continue_edit, least_bytes
from agora.gateway.editing.hindsight import Looked
from agora.gateway.editing.job import Edited
from agora.gateway.forwarding.arms import note_call
from agora.gateway.forwarding.in_flight import InFlight, header
from agora.gateway.watching import quota
from agora.gateway.watching.bill import Billed, Sent, net_saving
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.shadow import Would, blocks_of, predicted_saving, shared_bytes


def note_sent(call: InFlight, edited: Edited | None, *, instead: bool = False) -> None:
    """Note what the conversation is sent with, and whether that continues what it had."""
    if edited is not None:
        call.sent = Sent(
            tokens_in=edited.tokens_before,
            tokens_out=edited.tokens_after,
            new_tokens=edited.newest_tokens,
            breaks=edited.at_epoch,
            arrived=edited.arrived,
        )
    elif call.sent.tokens_in:
        call.sent = replace(call.sent, tokens_out=call.sent.tokens_in)
    conversation = call.conversation
    if conversation is None or call.upstream is None:
        return
    if instead:
        # The one before was refused: no cache has it.
        conversation.calls, conversation.epoch, conversation.tokens, conversation.when = (
            call.went_before
        )
    call.went_before = (
        conversation.calls,
        conversation.epoch,
        conversation.tokens,
        conversation.when,
    )
    now, epoch = call.gateway.clock(), 0 if edited is None else edited.epoch
    tokens = call.sent.tokens_in
    if conversation.calls:
        sheet = call.gateway.sheet_of(call.upstream, call.model)
        call.sent = replace(
            call.sent,
            breaks=conversation.epoch != epoch,
            new_tokens=max(0, tokens - conversation.tokens),
            arrived=max(0, call.sent.arrived - conversation.arrived),
            warm=now - conversation.when <= sheet.for_ttl(conversation.ttl).ttl_seconds,
        )
    conversation.calls += 1
    conversation.epoch, conversation.tokens, conversation.when = epoch, tokens, now
    conversation.arrived = 0 if edited is None else edited.arrived


def _counted(call: InFlight, prompt: int) -> Sent:
    """Return what was sent, by the provider's count as far as it is known."""
    sent, conversation = call.sent, call.conversation
    if conversation is None:
        return sent
    scale = conversation.scale
    whole = conversation.billed(
        prompt,
        sent.tokens_in,
        sent.new_tokens,
        edited=call.made is not None,
        breaks=sent.breaks,
        arrived=sent.arrived,
    )
    return replace(sent, whole=whole, scale=scale)


def _late_loss(call: InFlight) -> None:
    """Book a body that was sent whole for lack of time, if it had been edited elsewhere.

    That is known once the edit is worked out, and by the end of the answer it mostly is.
    """
    known = None
    if call.conversation is None and call.edited is None:
        known = continue_edit(call.prompt(), call.gateway.editing, call.reason)
    if (
        known is not None
        and known.changed
        and known.conversation is not None
        and not known.at_epoch
    ):
        tokens, conversation = known.tokens_before, known.conversation
        call.sent = Sent(
            tokens_in=tokens, tokens_out=tokens, new_tokens=known.newest_tokens, breaks=True
        )
        if not conversation.calls:
            conversation.calls, conversation.tokens, conversation.when = (
                1,
                tokens,
                call.gateway.clock(),
            )


def note_lost_thinking(call: InFlight, blocks: int, *, again: bool = False) -> None:
    """Note how many thinking blocks this call lacks that the one before still had."""
    edited, conversation = call.edited, call.conversation
    by_edit = edited.thinking.blocks if edited is not None else 0
    lacks, at_epoch = blocks + by_edit, edited is not None and edited.at_epoch
    if conversation is not None:
        before = conversation.lost_blocks
        if not call.went_before[0] and not at_epoch:
            # Begun elsewhere, or before a restart: what the edit lacks, it lacked there too.
            before = max(before, by_edit)
        call.lost_blocks += max(0, lacks - before)
        conversation.lost_blocks = lacks
    elif (blocks and not again) or at_epoch:
        call.lost_blocks = lacks


def _would_save(call: InFlight, billed: Billed | None) -> float:
    """Return the dollars that a call in shadow would have saved; note how it would have gone."""
    would, gateway = call.would, call.gateway
    if would is None:
        return 0.0
    conversation, breaks, shared = would.conversation, would.at_epoch, 1.0
    if conversation is not None:
        breaks = conversation.epoch != would.epoch if conversation.calls else would.at_epoch
        conversation.calls += 1
        conversation.epoch, conversation.when = would.epoch, gateway.clock()
    if conversation is not None and would.changed:
        now = blocks_of(would.body)
        before, conversation.blocks = conversation.blocks or blocks_of(call.body), now
        shared = min(1.0, shared_bytes(before, now) / len(would.body))
    dollars = 0.0
    if billed is not None and call.upstream is not None and would.changed:
        sent = Would(
            tokens_before=would.tokens_before,
            tokens_after=would.tokens_after,
            bytes_before=len(call.body),
            bytes_after=len(would.body),
            breaks=breaks,
            shared=shared,
        )
        sheet = _sheet(call, call.upstream, billed)
        dollars = predicted_saving(sheet, billed, sent)
    return dollars


def _sheet(call: InFlight, upstream: Upstream, billed: Billed) -> PriceSheet:
    """Return the prices of this call: those of the lifetime that it wrote for."""
    state = call.state
    ttl = state.ttl if state is not None else None
    sheet = call.gateway.sheet_of(upstream, call.model)
    return sheet.as_billed(billed.written, billed.written_1h, ttl)


def _dollars(call: InFlight, billed: Billed) -> tuple[float, float]:
    """Return what the call cost by the price sheet, and what it saved, net."""
    if call.reason in LATE and not call.shadow:
        _late_loss(call)
    if call.upstream is None:
        return 0.0, 0.0
    sent = _counted(call, billed.prompt)
    sheet = _sheet(call, call.upstream, billed)
    spent = sheet.dollars(
        uncached=billed.fresh, read=billed.read, written=billed.written, output=billed.output
    )
    return spent, net_saving(sheet, billed, sent)


def account(call: InFlight) -> None:
    """Have the exchange counted and told, now that it is over."""
    gateway = call.gateway
    ended_ns = time.time_ns()
    billed = call.reader.billed() if call.reader is not None else None
    would_save = _would_save(call, billed)
    spent, saved = _dollars(call, billed) if billed is not None else (0.0, 0.0)
    exchange = _record(call)._replace(
        ended_ns=ended_ns,
        billed=billed is not None,
        fresh=billed.fresh if billed else 0,
        read=billed.read if billed else 0,
        written=billed.written if billed else 0,
        output=billed.output if billed else 0,
        dollars=spent,
        dollars_saved=saved,
        would_save=would_save,
    )
    # What was decided on was read: it is JSON.
    gateway.record(exchange, call.body if call.edited or call.would else None)
    if call.seat is not None and gateway.trial is not None:
        affected = len(call.body) >= least_bytes(gateway.config)
        note_call(gateway.trial, call.seat, exchange, affected=affected)
        gateway.meter.experiment_call(call.seat.arm)
    if billed is not None:
        quota.tell(call.quota, billed)
        gateway.book(call.tenant, saved)


def _record(call: InFlight) -> Exchange:
    """Return what is known of an exchange apart from its bill."""
    edited, would, made = call.edited, call.would, call.made
    counted = edited or would
    tokens_in = counted.tokens_before if counted else 0
    state, upstream = call.state, call.upstream
    looked = state.look_back() if state is not None else Looked()
    server, port = upstream.server if upstream else ("", 0)
    return Exchange(
        route=call.route.name,
        tenant=call.tenant,
        upstream=upstream.name if upstream else "",
        family=call.route.family,
        model=call.model or "",
        status=call.status,
        rung=made.rung if made is not None else Rung.UNTOUCHED,
        reason=call.reason,
        rule=counted.rule if counted is not None else "",
        no_steps=counted is not None and bool(counted.hint),
        stream=call.streamed or bool(edited and edited.stream),
        resent=call.resent,
        tokens_in=tokens_in,
        tokens_out=edited.tokens_after if edited else tokens_in,
        would_rung=would.rung if would else Rung.UNTOUCHED,
        would_reason=would.reason if would else "",
        would_remove=would.tokens_before - would.tokens_after if would else 0,
        elided=counted.newly_elided if counted else "",
        arrived=made.arrived if made is not None else 0,
        lost_blocks=call.lost_blocks,
        used_elided=looked.used,
        rereads=looked.again,
        asked_again=looked.asked,
        elided_kinds=looked.elided,
        after_edit=looked.steps,
        held_ms=call.held * 1e3,
        first_byte_ms=call.first_byte * 1e3,
        first_chunk_ms=call.first_chunk * 1e3 if call.streamed else 0.0,
        started_ns=call.started_ns,
        error=call.error,
        headers=_told_headers(call),
        traceparent=header(call.scope["headers"], b"traceparent").decode("latin-1"),
        server=server,
        port=port,
        shadow=call.shadow,
    )


def _told_headers(call: InFlight) -> tuple[tuple[str, str], ...]:
    """Return the request headers that the log may have."""
    told = call.gateway.config.log.headers
    return tuple(
        (text, value.decode("latin-1"))
        for name, value in call.scope["headers"]
        if (text := name.decode("latin-1")) in told
    )
