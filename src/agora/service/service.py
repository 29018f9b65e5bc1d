"""The path of a request, top to bottom: receive, edit, rescue, finish."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from agora import Compression, PriceSheet, Reason
from agora.core.memo import Memo
from agora.experiment.assignment import Arm
from agora.savings import Paid, Sent, call_dollars, price_call
from agora.service.account import Account, log_call
from agora.service.arms import arm_for
from agora.service.call import Call, Edited, Outcome
from agora.service.edit import Counter, request_of
from agora.service.metrics import Metrics
from agora.service.owners import conversation_of, owner_of, secret_from
from agora.service.prompt import UNREADABLE, model_in, written
from agora.service.routes import Route, why_not_by_head
from agora.service.settings import Settings
from agora.service.shadow import would_save
from agora.service.standdown import StandDown
from agora.service.workers import LateError, Workers
from agora.session import Made, Place, Session

_log = logging.getLogger(__name__)
REFUSED = frozenset({400, 422})
"""How providers refuse a history."""
_BYTES_PER_TOKEN = 3
"""Few bodies have fewer, so a shorter one need not be read."""
_LONG_BYTES = 512 << 10
"""A longer body is read in a thread, so that others need not wait."""
_SAVE_SECONDS = 60.0
_MOST_CONVERSATIONS = 4_096
_FOLLOWED = ("bypass", "too_short")
"""Calls that go out whole and decide which thinking holds at the next one."""


class Service:
    """Edits prompts on their way to a provider, and keeps the account. One for each event loop.

    The caller carries the bytes. For each request:

        call = service.receive(route, headers, body)     # what it is
        edited = await service.edit(call)                # send edited.body
        again = await service.rescue(call, edited, status, refusal)   # once, if there is one
        service.finish(call, edited, outcome)            # when the answer is over

    None of these raises because of a client's or a provider's bytes.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        account: Account | None = None,
        states: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a service.

        Args:
            settings: The settings of the proxy or the filter.
            account: The account to continue.
            states: The file with the states of conversations, without any text.
            clock: Returns seconds.
        """
        self.settings = settings
        self.account = account or Account()
        self._clock = clock
        self._least_bytes = _BYTES_PER_TOKEN * settings.compressor().min_tokens
        self._secret = secret_from(settings.owners.secret_env)
        self._workers = Workers(settings)
        memory = settings.limits.memory_mb << 20
        self._session = Session(settings.compressor(Counter()), clock=clock, most_bytes=memory)
        self._states = states
        self._saving: asyncio.Task[None] | None = None
        if states is not None:
            with suppress(OSError, ValueError, TypeError):
                self._session.load(json.loads(states.read_text(encoding="utf-8")))
        self._priced: Memo[bool] = Memo(_MOST_CONVERSATIONS)
        """The conversations that had a call with usage."""
        self._stand_down = StandDown()
        self._metrics = Metrics()
        self._sheets = lru_cache(maxsize=1_024)(settings.sheet)
        self._shadows: dict[int, asyncio.Task[Edited]] = {}
        """In shadow mode, the decisions under way, by the identity of their call."""
        self._late_shadows: set[asyncio.Task[Edited]] = set()
        """Those with a finished call that waits to be counted."""

    async def start(self) -> None:
        """Start a worker, so that the first request does not wait for it."""
        if self._states is not None:
            self._saving = asyncio.create_task(self._save_now_and_then(self._states))
        await self._workers.start()

    async def close(self) -> None:
        """Stop the workers, once calls that are over have been counted."""
        if self._late_shadows:
            await asyncio.wait(
                self._late_shadows, timeout=2 * self.settings.limits.deadline_ms / 1e3
            )
        for task in self._shadows.values():
            task.cancel()
        await self._workers.close()
        if self._saving is not None:
            self._saving.cancel()
        if self._states is not None:
            self._save(self._states)

    def receive(self, route: Route, headers: Mapping[str, str], body: bytes) -> Call:
        """Return a request as a `Call`. `headers` have names in lower case."""
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
        """Return the reason to send a request unchanged, from its head and the bytes of its body.

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
        """Return the request to send: a new edit, the edit in force, or the client's own body."""
        if call.untouched and not (call.binds_thinking and call.untouched in _FOLLOWED):
            return Edited(body=call.body, reason=call.untouched)
        if self.settings.mode == "shadow":
            self._shadows[id(call)] = asyncio.create_task(self._edit(call))
            return Edited(body=call.body, reason="shadow")
        return await self._edit(call)

    async def rescue(
        self, call: Call, edited: Edited, status: int, refusal: bytes = b""
    ) -> Edited | None:
        """Return the request for the single retry after a refusal, or None.

        A refused edit is followed by the original, and its conversation is not edited again. On a
        model that binds thinking, the retry is sent without any thinking. If the `refusal` names
        thinking as the problem, the edit itself stays.
        """
        if status not in REFUSED or edited.retried or edited.compression is None:
            return None
        about_thinking = b"thinking" in refusal and call.binds_thinking
        if not edited.changed and not about_thinking:
            return None
        compression = self._session.refused(edited.compression, about_thinking=about_thinking)
        if compression is None:
            return None
        again = self._written(call, compression, "thinking_refused" if about_thinking else "resent")
        return None if again.body == edited.body else replace(again, retried=True, last=edited.last)

    def hold(self, again: Edited) -> None:
        """Remember a `rescue` that cannot be sent: its conversation gets no more edits."""
        if again.compression is not None:
            self._session.answered(again.compression)

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
            memory_bytes=self._session.used_bytes,
            owners_standing_down=self._stand_down.count(),
        )

    async def _edit(self, call: Call) -> Edited:
        """Return the request to send. A call that continues a known one is decided here."""
        try:
            if len(call.body) > _LONG_BYTES:
                place, compression = await asyncio.to_thread(self._known, call)
            else:
                place, compression = self._known(call)
        except UNREADABLE:
            return Edited(body=call.body, reason="unreadable")
        if place.request.server_side:
            return Edited(body=call.body, reason=str(Reason.SERVER_SIDE_HISTORY))
        if not place.digests:
            return Edited(body=call.body, reason=str(Reason.NOTHING_TO_ELIDE))
        reason = call.untouched
        if compression is None:
            made, reason = await self._made(call, place)
            whole = call.untouched == "bypass"
            compression = self._session.settle(place, made, whole=whole)
            if compression is None:
                return Edited(body=call.body, reason=str(Reason.GUARD))
        edited = self._written(call, compression, reason)
        note = place.last.note if place.last is not None else None
        return replace(edited, last=Paid(*note) if note else None)  # type: ignore[arg-type]

    def _known(self, call: Call) -> tuple[Place, Compression | None]:
        """Return a call's place, and its compression if no worker is needed."""
        place = self._session.find(request_of(call), owner=call.owner)
        if not place.digests or call.untouched or self._stands_down(call):
            return place, None
        made = None
        with suppress(Exception):
            made = self._session.known(place)
        return place, self._session.settle(place, made) if made is not None else None

    async def _made(self, call: Call, place: Place) -> tuple[Made, str]:
        """Return a worker's decision, or the edit in force and the reason for it."""
        reason = call.untouched or ("stand_down" if self._stands_down(call) else "")
        if not reason:
            try:
                return await self._workers.decide(call, place.since), ""
            except LateError as error:
                reason = error.reason
        made = self._session.late(place, Reason.LATE)
        if reason == "too_short" and not made.account.tokens_before:
            # The prompt is too small for an edit by any process.
            made = made._replace(account=replace(made.account, tokens_before=1, tokens_after=1))
        return made, reason

    def _stands_down(self, call: Call) -> bool:
        return self.settings.owners.stand_down and self._stand_down.stands_down(call.owner)

    def _written(self, call: Call, compression: Compression, reason: str) -> Edited:
        own = compression.request.messages if compression.request is not None else ()
        body = written(call.body, call.route.fields.messages, own, compression)
        special = compression.reason is Reason.OWN_SUMMARY
        return Edited(
            body=body,
            reason=str(compression.reason) if special or not reason else reason,
            changed=body is not call.body,
            tokens_before=compression.tokens_before,
            tokens_after=compression.tokens_after,
            thinking_blocks=compression.thinking.blocks,
            detail=compression.rule or compression.detail,
            compression=compression,
        )

    def _finish(self, call: Call, edited: Edited, outcome: Outcome) -> None:
        sheet, compression = self._sheet(call), edited.compression
        paid = edited.last
        if outcome.usage is not None and call.route.answers:
            dollars, saving = call_dollars(sheet, outcome.usage), 0.0
            if compression is not None and compression.reason is not Reason.OWN_SUMMARY:
                edit = compression.last_edit if edited.changed else 0
                sizes = Sent(compression.tokens_before, compression.tokens_after, edit)
                known = self._priced.get(call.conversation) is not None
                saving, paid = price_call(
                    sheet, outcome.usage, sizes, paid, self._clock(), rewritten=known
                )
                self._priced.put(call.conversation, True)
            self._stand_down.add(call.owner, saving)
            outcome = replace(outcome, dollars=dollars, saved=saving)
        if edited.retried and outcome.status in REFUSED and compression is not None:
            self._session.rejected(compression)
        self._answered(call, compression, outcome, paid)
        self._record(call, edited, outcome, sheet)

    def _answered(
        self, call: Call, compression: Compression | None, outcome: Outcome, paid: Paid | None
    ) -> None:
        if compression is not None and 200 <= outcome.status < 300 and call.route.answers:
            answer = list(outcome.answer)
            self._session.answered(compression, answer=answer, usage=outcome.usage, note=paid)

    def _finish_shadow(self, call: Call, outcome: Outcome, task: "asyncio.Task[Edited]") -> None:
        """Account for a call that was sent whole, by the edit that would have been made."""
        if task.cancelled() or task.exception() is not None:
            return
        edited, sheet = task.result(), self._sheet(call)
        compression = edited.compression
        if outcome.usage is not None and call.route.answers:
            saving = would_save(sheet, outcome.usage, compression) if compression else 0.0
            outcome = replace(outcome, dollars=call_dollars(sheet, outcome.usage), saved=saving)
        self._answered(call, compression, outcome, None)
        self._record(call, edited, outcome, sheet)

    async def _save_now_and_then(self, path: Path) -> None:
        while True:
            await asyncio.sleep(_SAVE_SECONDS)
            await asyncio.to_thread(self._save, path)

    def _save(self, path: Path) -> None:
        """Write the states to a file, all of them or nothing."""
        part = path.with_name(path.name + ".part")
        try:
            part.write_text(json.dumps(self._session.rows()) + "\n", encoding="utf-8")
            os.replace(part, path)
        except OSError as error:
            _log.warning("what is remembered was not written: %s", error.strerror)

    def _record(self, call: Call, edited: Edited, outcome: Outcome, sheet: PriceSheet) -> None:
        self._metrics.record(call, edited, outcome, sheet.name)
        self.account.record(call, edited, outcome, sheet.name)
        if self.settings.log.requests:
            name = self.settings.experiment.name
            log_call(call, edited, outcome, sheet.name, experiment=name)

    def _sheet(self, call: Call) -> PriceSheet:
        return self._sheets(call.model)
