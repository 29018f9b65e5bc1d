"""One decision on a prompt, for the gateway and for the filter in Envoy alike."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from agora.core.prices import PriceSheet
from agora.gateway.body import model_before, model_behind, model_of
from agora.gateway.config import Config
from agora.gateway.editing.away import Away
from agora.gateway.editing.conversation import ConversationState
from agora.gateway.editing.job import NOT_ADMITTED, UNREAD, Edited, Job, Look
from agora.gateway.editing.pool import Missed, Ticket
from agora.gateway.editing.workers import LONG_SECONDS, SHADOW_SECONDS, Editing
from agora.gateway.routing.keys import is_bearer
from agora.gateway.routing.routes import CONVERSE, Header, Route, bypassed

_log = logging.getLogger("agora.gateway.forward")
STAND_DOWN = "stand_down"
RULE_BREAKER = "rule_breaker_open"
EXPERIMENT_STOPPED = "experiment_stopped"
LATE = frozenset({Missed.LATE, Missed.SATURATED, Missed.OPEN, Missed.PENDING})
UNSURE = LATE | {Missed.FAILED, STAND_DOWN, RULE_BREAKER, EXPERIMENT_STOPPED, UNREAD}
"""Why a body is forwarded unchanged though earlier calls of it may have been edited."""
BYTES_PER_TOKEN = 3
"""Few bodies have less: a shorter one is below the threshold without being read."""
_MIN_WINDOW = 8_000
"""No window is smaller, in tokens: a body that fits there need not be looked at."""
_AHEAD_TOKENS = 24_000
"""From here on the texts of a conversation are read as they come, since its edit is not far."""
_MAX_RESTORING = 64
"""Bodies of conversations not known here that may wait for a thread."""
_BYTES_PER_SECOND = 1 << 20
"""How fast a body is read that was never seen: steps of 200 bytes at this rate on a core of one's
own, those of 2,000 at three times that."""
_OPENING_BYTES = 1 << 20
"""What a long body is known by while nothing of it is."""
_NO_TICKET = Ticket(float("inf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A body to decide on, and what is known of its request."""

    body: bytes
    route: Route
    sheet_of: Callable[[str | None], PriceSheet]
    """The prices of a model, where this request goes."""
    window_of: Callable[[str | None], int | None]
    """The tokens that a model takes there, None where that is not known."""
    model: str | None = None
    """The model that the path names."""
    tenant: str = ""
    agent: str = ""

    def job(
        self,
        ticket: Ticket = _NO_TICKET,
        *,
        pause: Callable[[], object] | None = None,
        away: Away | None = None,
    ) -> Job:
        """Return what the pool is given."""
        return Job(
            body=self.body,
            route=self.route,
            sheet_of=self.sheet_of,
            model=self.model,
            tenant=self.tenant,
            agent=self.agent,
            until=ticket.until,
            gone=ticket.is_gone,
            pause=pause,
            away=away,
        )

    def is_beyond_window(self, body: bytes) -> bool:
        """Tell whether such a body would be refused because it does not fit."""
        if len(body) <= _MIN_WINDOW * BYTES_PER_TOKEN:
            return False
        model = model_before(body) or model_behind(body) or model_of(body)
        window = self.window_of(model or self.model)
        return window is not None and len(body) > window * BYTES_PER_TOKEN


def least_bytes(config: Config) -> int:
    """Return from how many bytes on a body is read.

    With references all are: one that is found only when a conversation has grown would rewrite
    what went on whole before.
    """
    return 0 if config.compression.repeats else config.compression.min_tokens * BYTES_PER_TOKEN


def untouched_by_head(config: Config, route: Route, headers: list[Header]) -> str:
    """Return why a body is not even read, as far as its head says, or nothing."""
    if not config.compression.enabled:
        return "disabled"
    if bypassed(headers):
        return "bypass"
    if route is CONVERSE and not is_bearer(headers):
        # An edited body would no longer match its signature.
        return "signed_body"
    return ""


async def decided(
    prompt: Prompt, editing: Editing, config: Config, why_not: str = ""
) -> Edited | str:
    """Return the edited body, or why it is forwarded unchanged.

    Whatever the time: a conversation that went on edited goes on so, with its last edit if
    there is none that is newer. One that is not known here may have been edited elsewhere, and
    sending all of it would cost more than waiting: it may take longer. Nobody waits longer than
    that for all of it together.
    """
    until = time.monotonic() + _longest(config)
    outcome: Edited | str = why_not or await _worked_out(prompt, editing, config)
    stopped = isinstance(outcome, str)
    if isinstance(outcome, str):
        outcome = continue_edit(prompt, editing, outcome) or outcome
    else:
        stopped = outcome.reason == NOT_ADMITTED
    if stopped and prompt.is_beyond_window(
        prompt.body if isinstance(outcome, str) else outcome.body
    ):
        # It would be refused as it is: then even the rule is better.
        by_rule = await editing.by_rule.run(
            prompt.job,
            owner=prompt.tenant,
            seconds=len(prompt.body) / _BYTES_PER_SECOND,
            deadline_seconds=until - time.monotonic(),
        )
        outcome = outcome if isinstance(by_rule, str) else by_rule
    return outcome


def _longest(config: Config) -> float:
    """Return how many seconds a request may be held in all."""
    limits = config.limits
    longest = max(limits.restore_deadline_ms, limits.compress_deadline_ms) / 1e3
    return max(longest, SHADOW_SECONDS) if config.compression.mode == "shadow" else longest


def continue_edit(prompt: Prompt, editing: Editing, why: str) -> Edited | None:
    """Return the body with the last edit of its conversation, if there is one."""
    try:
        return editing.editor.continue_edit(prompt.job(), why)
    except Exception as error:
        _log.warning("looking up the conversation failed with %s", type(error).__name__)
        return None


async def _worked_out(prompt: Prompt, editing: Editing, config: Config) -> Edited | str:
    """Return what is remembered, or what the pool makes of the body in the time that it has."""
    shadow = config.compression.mode == "shadow"
    known, conversation, begins = _look(prompt, editing)
    if (
        known is not None
        and conversation is not None
        and conversation.unread
        and known.tokens_before >= _AHEAD_TOKENS
    ):
        editing.pool.offer(replace(prompt.job(), body=b"", ahead=conversation))
    if known is not None:
        return known
    seconds = _longest(config)
    if conversation is not None and not shadow and not config.compression.repeats:
        # With references every call is read in full: one that is sent without them, since it took
        # too long, has its end rewritten at the next.
        seconds = config.limits.compress_deadline_ms / 1e3
    elif begins and not shadow:
        # New wherever it comes from: it loses nothing by going on as it is.
        seconds = config.limits.compress_deadline_ms / 1e3
    elif prompt.is_beyond_window(prompt.body):
        # Some of the time is for the rule: without any edit it would be refused.
        seconds /= 2
    expected = _expected_seconds(prompt, conversation)
    # In shadow nobody waits: all of it is done in order, each call after the one before it.
    quick = editing.pool
    long = expected > LONG_SECONDS
    pool = editing.long if shadow or long else quick
    restores = pool is quick and conversation is None
    same: object = conversation
    if long and conversation is None:
        # Its next calls come before it is known: one of them is enough to know it by.
        same = (prompt.tenant, hash(memoryview(prompt.body)[:_OPENING_BYTES]))
    make = partial(prompt.job, pause=editing.give_way, away=editing.away if long else None)
    return await pool.run(
        prompt.job if pool is quick else make,
        owner=prompt.tenant,
        kind=(len(prompt.body) >> 16).bit_length() // 2,
        same=None if shadow else same,
        seconds=0.0 if shadow else expected,
        deadline_seconds=seconds,
        waiting_most=_MAX_RESTORING if shadow or restores else None,
    )


def _expected_seconds(prompt: Prompt, conversation: ConversationState | None) -> float:
    """Return how long an edit is expected to take: about as long for each byte as the last did."""
    pace = conversation.pace if conversation is not None else 0.0
    return len(prompt.body) * (pace or 1 / _BYTES_PER_SECOND)


def _look(prompt: Prompt, editing: Editing) -> Look:
    """Return what is remembered; if that fails, the pool reads the body again."""
    try:
        return editing.editor.look(prompt.job())
    except Exception as error:
        _log.warning("looking up the conversation failed with %s", type(error).__name__)
        return Look()
