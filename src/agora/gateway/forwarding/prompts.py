"""A prompt on its way: what is sent for it, or would be in shadow mode."""

import asyncio
import logging

from agora.core.compression import Reason
from agora.gateway.body import deeper_than, model_before, model_behind, model_of
from agora.gateway.editing.deciding import (
    EXPERIMENT_STOPPED,
    RULE_BREAKER,
    STAND_DOWN,
    decided,
    least_bytes,
    untouched_by_head,
)
from agora.gateway.editing.job import TOO_DEEP, Edited
from agora.gateway.editing.pool import Missed
from agora.gateway.forwarding.accounts import account
from agora.gateway.forwarding.answers import converse
from agora.gateway.forwarding.arms import WAITING, take_seat
from agora.gateway.forwarding.in_flight import InFlight
from agora.gateway.intake.refused import RefusedError

_log = logging.getLogger("agora.gateway.forward")


def find_seat(call: InFlight) -> None:
    """Find out where a request sits, if an experiment runs."""
    gateway = call.gateway
    if gateway.trial is not None:
        call.seat = take_seat(
            gateway.trial,
            gateway.config.experiment,
            call.tenant,
            _peek(call) or call.destination.model or "",
            call.scope["headers"],
            call.body,
            call.route.field,
        )


async def decide(call: InFlight) -> None:
    """Put the edited body in place, or say why it is the client's own."""
    gateway, config = call.gateway, call.gateway.config
    began = gateway.clock()
    call.reason = _why_not(call)
    model: str | None = None
    if call.reason in ("", STAND_DOWN):
        outcome = await decided(call.prompt(), gateway.editing, config, call.reason)
        if isinstance(outcome, str):
            call.reason = outcome
            # Nobody has looked: what is too deep is not forwarded for want of time.
            if await asyncio.to_thread(deeper_than, call.body, config.limits.depth):
                raise _too_deep(config.limits.depth)
        else:
            call.reason, model = outcome.reason, outcome.model
            if call.reason == TOO_DEEP:
                raise _too_deep(config.limits.depth)
            call.edited, call.conversation = outcome, outcome.conversation
    if model is None:
        model = _peek(call) or call.destination.model
    call.route_to(model)
    assert call.upstream is not None  # noqa: S101
    if call.made is not None and not gateway.rules.allows(call.tenant, (call.upstream.name, model)):
        await _hold_back(call)
    call.held = gateway.clock() - began


async def shadow(call: InFlight, target: str) -> None:
    """Forward the client's own bytes at once, and decide meanwhile what an edit would be."""
    gateway = call.gateway
    began = gateway.clock()
    try:
        call.reason = _why_not(call)
    except RefusedError as refused:
        call.reason = refused.reason
    call.route_to(_peek(call) or call.destination.model)
    if call.reason in ("", STAND_DOWN):
        call.reason = str(Reason.SHADOW)
        call.deciding = asyncio.ensure_future(
            decided(call.prompt(), gateway.editing, gateway.shadow_config)
        )
    call.held = call.gateway.clock() - began
    await converse(call, target)


async def settle(call: InFlight, before: "asyncio.Task[None] | None" = None) -> None:
    """Take in what an edit would have been, and count; the client has its answer by now.

    `before` is the same of the tenant's call before this one: it is counted first.
    """
    try:
        await _decided(call)
        if before is not None:
            await asyncio.wait([before])
    finally:
        account(call)


async def _decided(call: InFlight) -> None:
    assert call.deciding is not None  # noqa: S101
    outcome: Edited | str
    try:
        outcome = await call.deciding
    except asyncio.CancelledError:
        outcome = Missed.SATURATED
    except Exception as error:
        _log.warning("deciding in shadow failed with %s", type(error).__name__)
        outcome = Missed.FAILED
    if isinstance(outcome, str):
        call.reason = outcome
        return
    call.would, call.model = outcome, call.model or outcome.model
    if not outcome.changed:
        call.reason = outcome.reason


async def _hold_back(call: InFlight) -> None:
    """Forward the client's own body, or an edit by the fallback rule if it would not fit."""
    prompt = call.prompt()
    if not prompt.is_beyond_window(call.body):
        call.edited, call.reason = None, RULE_BREAKER
        return
    outcome = await call.gateway.editing.by_rule.run(prompt.job, owner=call.tenant)
    if not isinstance(outcome, str) and outcome.changed:
        call.edited, call.reason = outcome, outcome.reason


def _why_not(call: InFlight) -> str:
    """Return why the body is not even read, or nothing."""
    config, trial = call.gateway.config, call.gateway.trial
    if trial is not None and call.seat is None:
        return EXPERIMENT_STOPPED if trial.stopped else WAITING
    reason = untouched_by_head(config, call.route, call.scope["headers"])
    if reason:
        return reason
    if not config.recall and len(call.body) < least_bytes(config):
        if deeper_than(call.body, config.limits.depth):
            raise _too_deep(config.limits.depth)
        return "below_threshold"
    if not call.gateway.ledger.may_compress(call.tenant, call.gateway.clock()):
        return STAND_DOWN
    return ""


def _peek(call: InFlight) -> str | None:
    """Return the model, by a look at the whole body only if it says where a request goes."""
    upstreams = call.gateway.config.upstreams
    if len(upstreams) > 1 or upstreams[0].models != ("*",):
        return model_of(call.body)
    return model_before(call.body) or model_behind(call.body)


def _too_deep(depth: int) -> RefusedError:
    return RefusedError(400, TOO_DEEP, f"the body is nested more than {depth} deep")
