"""The path of a request, top to bottom: receive, edit, rescue, finish."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from agora.core.prices import PriceSheet
from agora.experiment.assignment import Arm
from agora.service import money
from agora.service.account import Account, log_call
from agora.service.arms import arm_for
from agora.service.call import Call, Edited, Outcome
from agora.service.edit import look
from agora.service.memory import Memory, State, from_row
from agora.service.metrics import Metrics
from agora.service.owners import conversation_of, owner_of, secret_from
from agora.service.prompt import UNREADABLE, Edit, model_in, read
from agora.service.routes import Route, why_not_by_head
from agora.service.settings import Settings
from agora.service.shadow import would_save
from agora.service.standdown import StandDown
from agora.service.thinking import dead_until, is_refused_thinking
from agora.service.workers import LateError, Workers
from agora.summaries import OWN_SUMMARY

_log = logging.getLogger(__name__)
REFUSED = frozenset({400, 422})
"""How providers refuse a history."""
_BYTES_PER_TOKEN = 3
"""Few bodies have fewer, so a shorter one need not be read."""


class Service:
    """Edits prompts on their way to a provider, and keeps the account. One for each event loop.

    The caller carries the bytes. For each request:

        call = service.receive(route, headers, body)     # what it is
        edited = await service.edit(call)                # send edited.body
        again = await service.rescue(call, edited, status, refusal)   # once, if there is one
        service.finish(call, edited, outcome)            # when the answer is over

    None of these raises because of what a client or a provider sent.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        account: Account | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a service; `account` is the one to continue."""
        self.settings = settings
        self.account = account or Account()
        self._clock = clock
        self._least_bytes = _BYTES_PER_TOKEN * settings.compressor().min_tokens
        self._secret = secret_from(settings.owners.secret_env)
        self._workers = Workers(settings)
        self._memory = Memory(settings.limits.memory_mb << 20)
        for row in self.account.conversations.values():
            digest, state = from_row(row)
            self._memory.put([digest], state)
        self._stand_down = StandDown()
        self._metrics = Metrics()
        self._sheets = lru_cache(maxsize=1_024)(settings.sheet)
        self._shadows: dict[int, asyncio.Task[Edited]] = {}
        """In shadow mode, the decisions under way, by the identity of their call."""
        self._late_shadows: set[asyncio.Task[Edited]] = set()
        """Those of them whose call is over, and waits to be counted."""

    async def start(self) -> None:
        """Start a worker, so that the first request does not wait for it."""
        await self._workers.start()

    async def close(self) -> None:
        """Stop the workers, once calls that are over have been counted."""
        if self._late_shadows:
            await asyncio.wait(self._late_shadows, timeout=self.settings.limits.deadline_ms / 1e3)
        for task in self._shadows.values():
            task.cancel()
        await self._workers.close()

    def receive(self, route: Route, headers: Mapping[str, str], body: bytes) -> Call:
        """Return the call that a request is. `headers` have names in lower case."""
        owner = owner_of(headers, self.settings.owners.header, self._secret)
        conversation = conversation_of(owner, body, route.fields.messages)
        model = route.model or model_in(body)
        call = Call(route=route, body=body, owner=owner, conversation=conversation, model=model)
        if self.settings.mode == "experiment":
            arm = arm_for(self.settings.experiment, self._secret, owner, conversation)
            call = replace(call, arm=arm)
        reason = self.why_not(route, headers, len(body))
        if not reason and call.arm is not None and call.arm is not Arm.AGORA:
            reason = f"arm_{call.arm}"
        return replace(call, untouched=reason)

    def why_not(self, route: Route, headers: Mapping[str, str], size: int) -> str:
        """Return why a request goes out as it came, by its head and the bytes of its body.

        Empty if it has to be read to know.
        """
        if self.settings.mode == "off":
            return "off"
        if reason := why_not_by_head(route, headers):
            return reason
        if size > self.settings.limits.body_mb << 20:
            return "too_long"
        return "too_short" if size < self._least_bytes else ""

    def affinity(self, route: Route, headers: Mapping[str, str], body: bytes) -> str:
        """Return a key that all calls of a conversation share in every process; empty if none.

        Unlike the names in a `Call` it depends on no secret, so that Envoy can choose a replica.
        """
        owner = owner_of(headers, self.settings.owners.header, b"")
        return conversation_of(owner, body, route.fields.messages)

    async def edit(self, call: Call) -> Edited:
        """Return what to send for a call: an edit, the edit in force, or the client's own body."""
        # Thinking of calls before it may not fit a prompt that the client wants whole for once.
        if call.untouched and (call.untouched != "bypass" or not call.binds_thinking):
            return Edited(body=call.body, reason=call.untouched)
        if self.settings.mode == "shadow":
            self._shadows[id(call)] = asyncio.create_task(self._decided(call))
            return Edited(body=call.body, reason="shadow")
        return self._settled(call, await self._decided(call))

    async def rescue(
        self, call: Call, edited: Edited, status: int, refusal: bytes = b""
    ) -> Edited | None:
        """Return what to send once more after a refusal, or None if there is nothing to try.

        A refused edit is followed by the original, and its conversation is not edited again. On a
        model that binds thinking, all thinking is taken out of what is sent once more; if the
        `refusal` says that thinking was the problem, the edit itself stays.
        """
        if status not in REFUSED or edited.retried:
            return None
        about_thinking = is_refused_thinking(call, refusal)
        if not edited.changed and not about_thinking:
            return None
        try:
            prompt = read(call.body, call.route)
        except UNREADABLE:
            return None
        edit = edited.edit if about_thinking and edited.changed else None
        dead = len(prompt.messages) if call.binds_thinking else 0
        body, blocks = prompt.written(edit, dead)
        if body == edited.body:
            return None
        after = edited.after or State()
        return replace(
            edited,
            body=body,
            changed=body is not call.body,
            reason="thinking_refused" if about_thinking else "resent",
            edit=edit,
            tokens_after=edited.tokens_after if edit else edited.tokens_before,
            thinking_blocks=blocks,
            after=after._replace(edit=edit, dead=dead, held=not about_thinking),
            retried=True,
        )

    def hold(self, again: Edited) -> None:
        """Remember what `rescue` returned where it cannot be sent: no edit is made there again."""
        if again.after is not None:
            self._memory.put(again.digests, again.after)

    def finish(self, call: Call, edited: Edited, outcome: Outcome) -> None:
        """Remember how a call was sent, and add it to account, metrics and log."""
        task = self._shadows.pop(id(call), None)
        if task is None:
            self._finish(call, edited, outcome)
        else:
            self._late_shadows.add(task)
            task.add_done_callback(self._late_shadows.discard)
            task.add_done_callback(lambda task: self._finish_shadow(call, outcome, task))

    async def compress(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Return the status and the body that answer `POST /v1/compress`."""
        owner = owner_of(headers, self.settings.owners.header, self._secret)
        try:
            return await self._workers.compress(owner, body)
        except LateError as error:
            return (
                503,
                b'{"error": {"message": "%b", "type": "overloaded"}}' % error.reason.encode(),
            )

    def metrics(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        return self._metrics.text(
            queued_requests=self._workers.waiting,
            replaced_workers=self._workers.replaced,
            memory_bytes=self._memory.used_bytes,
            owners_standing_down=self._stand_down.count(),
        )

    async def _decided(self, call: Call) -> Edited:
        """Return what a worker decides; without one in time, only what the messages look like."""
        reason = call.untouched
        if self.settings.owners.stand_down and self._stand_down.stands_down(call.owner):
            reason = reason or "stand_down"
        if not reason:
            try:
                return await self._workers.decide(call)
            except LateError as error:
                reason = error.reason
        return await asyncio.to_thread(look, call, reason)

    def _settled(self, call: Call, made: Edited) -> Edited:
        """Return a decision with the body that carries it, by how the calls before it were sent."""
        if not made.digests:
            return replace(made, body=call.body)
        known = self._memory.find(made.digests)
        before = known[1] if known else None
        edit, reason = self._edit_to_send(call, made, before)
        prompt, dead = None, 0
        if edit is not None or call.binds_thinking:
            prompt = read(call.body, call.route)
            dead = dead_until(call, prompt, made, edit, known)
        body, blocks = prompt.written(edit, dead) if prompt else (call.body, 0)
        after = State(edit, dead, before is not None and before.held)
        advances = call.route.answers and not made.whole
        return replace(
            made,
            body=body,
            reason=reason,
            changed=body is not call.body,
            edit=edit,
            thinking_blocks=(made.thinking_blocks if edit is made.edit else 0) + blocks,
            before=before,
            after=after if advances else None,
        )

    def _edit_to_send(
        self, call: Call, made: Edited, before: State | None
    ) -> tuple[Edit | None, str]:
        """Return the edit that goes out and the reason, in the order in which rules count."""
        if call.untouched:
            return None, call.untouched
        if made.whole:
            return None, OWN_SUMMARY
        if before is not None and before.held:
            return None, "refused_before"
        if made.decided:
            return made.edit, made.reason
        in_force = before.edit if before else None
        return in_force if in_force and in_force.pieces else None, made.reason

    def _finish(self, call: Call, edited: Edited, outcome: Outcome) -> None:
        sheet = self._sheet(call)
        accepted = 200 <= outcome.status < 300
        paid = edited.before.paid if edited.before else None
        if outcome.usage is not None and call.route.answers:
            dollars, saving = money.spent(sheet, outcome.usage), 0.0
            if edited.after is not None:
                row = self.account.conversations.get(call.conversation)
                newest = from_row(row)[1].paid if row else None
                saving, paid = money.saved(sheet, outcome.usage, edited, self._clock(), newest)
            self._stand_down.add(call.owner, saving)
            outcome = replace(outcome, dollars=dollars, saved=saving)
        if accepted and edited.after is not None:
            state = edited.after._replace(paid=paid)
            self._memory.put(edited.digests, state)
            if edited.digests:
                self.account.remember(call.conversation, edited.digests[-1], state)
        self._record(call, edited, outcome, sheet)

    def _finish_shadow(self, call: Call, outcome: Outcome, task: "asyncio.Task[Edited]") -> None:
        """Account for a call that was sent whole, by the edit that would have been made."""
        if task.cancelled() or task.exception() is not None:
            return
        made, sheet = task.result(), self._sheet(call)
        known = self._memory.find(made.digests)
        made = replace(made, body=call.body, before=known[1] if known else None)
        if outcome.usage is not None and call.route.answers:
            saving = would_save(sheet, outcome.usage, made)
            outcome = replace(outcome, dollars=money.spent(sheet, outcome.usage), saved=saving)
        if 200 <= outcome.status < 300:
            self._memory.put(made.digests, State(made.edit))
        reason = "shadow" if made.edit is not None else made.reason
        self._record(call, replace(made, reason=reason), outcome, sheet)

    def _record(self, call: Call, edited: Edited, outcome: Outcome, sheet: PriceSheet) -> None:
        self._metrics.record(call, edited, outcome, sheet.name)
        self.account.record(call, edited, outcome, sheet.name)
        if self.settings.log.requests:
            name = self.settings.experiment.name
            log_call(call, edited, outcome, sheet.name, experiment=name)

    def _sheet(self, call: Call) -> PriceSheet:
        return self._sheets(call.model)
