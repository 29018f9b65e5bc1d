"""One request body compressed: read, edited by whole steps, every other byte left alone.

Pure apart from what it remembers of bodies it has seen, and that only saves time: the same body
gives the same bytes with an empty memory. Runs in a worker of the pool; what is quick enough for
the event loop says so.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from agora.adapters import format_named
from agora.compressor import Compressor
from agora.core.compression import Reason
from agora.core.memo import Occupancy, occupancy, share_out
from agora.core.prices import sheet_for
from agora.core.reading.observation import read_ahead
from agora.core.trajectory import Anchor
from agora.gateway.body import (
    Unreadable,
    decode,
    deeper_than,
    elements,
    encode,
    fields,
)
from agora.gateway.editing.conversation import (
    ConversationState,
    Found,
    behind,
    follows,
    same_until,
)
from agora.gateway.editing.conversations import Conversations
from agora.gateway.editing.counts import RememberedCounts
from agora.gateway.editing.fields import (
    Read,
    is_server_side,
    read_fields,
    text_at,
)
from agora.gateway.editing.giving_way import PausedCounts
from agora.gateway.editing.hindsight import SECRET
from agora.gateway.editing.in_full import Task, Worked, worked_out
from agora.gateway.editing.job import AHEAD, NOT_ADMITTED, TOO_DEEP, UNREAD, Edited, Job, Look
from agora.gateway.editing.outcomes import again, continued, own_body
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.editing.summaries import OWN_SUMMARY, asks_for_summary, may_ask
from agora.gateway.editing.timed import Timed
from agora.gateway.routing.routes import CHAT

_QUICK_BYTES = 64 << 10
"""Up to here what is new is read in well under a millisecond, wherever that happens."""
_QUICK_STEPS = 12_000
"""Up to here a schedule says within 10 ms whether an edit is due; to ask it in a thread, which
shares the interpreter, holds up the loop for longer."""
_BEGINNING_BYTES = 256 << 10
"""Up to here it is counted how many steps a body has that is not known."""
_LAST_MESSAGES = 4
"""How many messages are looked at for a request to sum up: system text may follow it."""
_BYTES_PER_TOKEN = 4
"""About what a token takes in a body, for a guess at whether it fits into the window."""
_MEMORY_SHARE = 0.25
"""How much of the memory is for conversations; the rest is for texts that were read."""
_BYTES_PER_CHARACTER = 6
"""About what the memos keep alive for each character that they count: a guess that kept 64 large
sessions within 410 MB, not a calibration."""


class Editor:
    """Compresses bodies. Safe to call from several threads."""

    def __init__(self, settings: EditorSettings) -> None:
        self._settings = settings
        self.counter = RememberedCounts()
        conversations = int(settings.memory_bytes * _MEMORY_SHARE)
        self._conversations = Conversations(conversations)
        if settings.memory_bytes:
            share_out((settings.memory_bytes - conversations) // _BYTES_PER_CHARACTER)
        # New messages are read on their own there: with a recall, or a user who is the world, they
        # say other things than behind those before them. Agents found to act by text are not
        # remembered either: their steps hold no calls, and only those that do are.
        self._remembers = settings.remembers

    def __call__(self, job: Job) -> Edited:
        """Return the edited body, or the client's own with the reason."""
        if job.ahead is not None:
            self._read_ahead(job.ahead)
            return own_body(job.body, AHEAD)
        try:
            return self._edit(job)
        except Unreadable:
            return self._doubt(job, "a value of it is not JSON")

    def look(self, job: Job) -> Look:
        """Return what becomes of a body that continues one seen before, if nothing is due there.

        Quick enough for the event loop: the beginning is compared and not read, and where much is
        left to read nothing is returned, as in any doubt.
        """
        try:
            begun = self._begun(job)
            if begun is None:
                return Look(begins=self._begins(job))
            found, read = begun
            new = found.start + same_until(found.seen, found.place)
            if may_ask(job.body, new, len(job.body)):
                # Perhaps a request for a summary: never continue that with an edited history.
                return Look()
            conversation = found.seen.conversation
            if conversation.refused:
                return Look(continued(job, found, read, NOT_ADMITTED), conversation)
            size = len(job.body) - found.start - found.seen.end
            if found.place is None or size > _QUICK_BYTES or self._long(found):
                return Look(conversation=conversation)
            body, spans = job.body, read.spans
            beside = job.route.fields.beside
            others = (s for name, s in spans.items() if s != read.span and name not in beside)
            if any(deeper_than(body[start:end], self._settings.depth - 1) for start, end in others):
                return Look(conversation=conversation)
            if is_server_side(body, spans, job.route):
                return Look(conversation=conversation)
            return Look(self._grown(job, found, read), conversation)
        except Unreadable:
            return Look()

    def continue_edit(self, job: Job, why: str) -> Edited | None:
        """Return a body with the last edit of its conversation, all that came since as it is.

        For when there is no time to work out whether another edit is due: what goes on then
        continues what went before. None when no call of the conversation is remembered. As quick
        as finding where the fields of the body stand.
        """
        try:
            found, read = self._begun(job) or self._found(job)
        except (LookupError, *Unreadable):
            return None
        new = found.start + same_until(found.seen, found.place)
        if may_ask(job.body, new, len(job.body)) and self._asks_for_summary(job, read):
            return None
        if not follows(found, job.body, read.span, least=self._settings.k_recent):
            return None
        return continued(job, found, read, why)

    def _read_ahead(self, conversation: ConversationState) -> None:
        """Read the newest steps of a conversation: what they say is remembered by their texts."""
        steps, conversation.unread = conversation.unread, ()
        with suppress(Exception):
            for step in steps if self._settings.lines else ():
                read_ahead(step)
            # A cross-encoder reads pairs and remembers nothing.
            if steps and type(self._settings.scorer).__name__ != "CrossEncoderScorer":
                self._settings.scorer.score(Anchor("", steps[-1].observation), steps)

    def warm(self) -> None:
        """Compress a made-up conversation, so that the first real one finds all of it loaded."""
        editor = Editor(replace(self._settings, memory_bytes=0, min_tokens=0))
        body = encode({"model": "", "messages": _made_up()})
        editor(Job(body=body, route=CHAT, sheet_of=lambda _: sheet_for("").no_cache()))

    def occupancy(self) -> dict[str, Occupancy]:
        """Return how full what is remembered is: the conversations, and each memo of texts."""
        return {"conversations": self._conversations.occupancy(), **occupancy()}

    def _begins(self, job: Job) -> bool:
        """Tell whether a body is so near its beginning that it cannot have been edited before."""
        settings = self._settings
        if not self._remembers or settings.repeats or len(job.body) > _BEGINNING_BYTES:
            return False
        start, end = (fields(job.body) or {}).get(job.route.field, (0, 0))
        if end - start > _QUICK_BYTES or job.body[start : start + 1] != b"[":
            return False
        acts = format_named(job.route.format).acts
        messages = decode(memoryview(job.body)[start:end])
        acting = sum(isinstance(message, dict) and acts(message) for message in messages)
        return acting <= settings.k_recent

    def _begun(self, job: Job) -> tuple[Found, Read] | None:
        """Return what a body begins with, by a look at what follows only."""
        if not self._remembers:
            return None
        for found in self._conversations.begins(job.tenant, job.route.format, job.body):
            rest = behind(found, job.body, job.route.field)
            if rest is None:
                continue
            read = read_fields(job, *rest, found.known)
            if read.key == found.seen.key:
                return found, read
        return None

    def _found(self, job: Job) -> tuple[Found, Read]:
        """Return the same by a look at where all fields stand.

        Raises:
            LookupError: nothing of the kind was seen.
        """
        spans = fields(job.body) if self._remembers else None
        span = None if spans is None else spans.get(job.route.field)
        if spans is None or span is None or job.body[span[0] : span[0] + 1] != b"[":
            raise LookupError
        read = read_fields(job, spans, span)
        found = self._conversations.find(read.key, job.body, span)
        if found is None:
            raise LookupError
        return found, read

    def _long(self, found: Found) -> bool:
        return found.place is not None and len(found.place.sizes.steps) > _QUICK_STEPS

    def _edit(self, job: Job) -> Edited:
        body = job.body
        spans = fields(body)
        if spans is None:
            return self._doubt(job, "the body is no JSON object beyond doubt")
        span = spans.get(job.route.field)
        if span is None or body[span[0] : span[0] + 1] != b"[":
            model = text_at(body, spans.get(job.route.fields.model))
            return self._doubt(job, "there is no list of messages", model=model)
        read = read_fields(job, spans, span)
        depth = self._settings.depth
        if any(
            deeper_than(body[start:end], depth - 1)
            for name, (start, end) in spans.items()
            if name != job.route.field
        ):
            return own_body(job.body, TOO_DEEP, model=read.model)
        if is_server_side(body, spans, job.route):
            return own_body(job.body, Reason.SERVER_SIDE_HISTORY, model=read.model)
        found = self._conversations.find(read.key, body, span) if self._remembers else None
        # A body that asked for one before is not remembered, so what is new has to ask.
        new = span[0] if found is None else found.start + same_until(found.seen, found.place)
        if may_ask(body, new, span[1]) and self._asks_for_summary(job, read):
            # Not remembered either: the conversation continues from the summary, not from here.
            return replace(own_body(job.body, OWN_SUMMARY, model=read.model), stream=read.stream)
        if found is None:
            self._conversations.missed()
        elif found.seen.conversation.refused:
            return continued(job, found, read, NOT_ADMITTED)
        grown = None if found is None else self._grown(job, found, read)
        if grown is not None:
            return grown
        compressor = self._compressor(job, read)
        return self._in_full(job, read, compressor, found)

    def _asks_for_summary(self, job: Job, read: Read) -> bool:
        """Tell whether an agent wants its own history summed up, and the whole of it would fit.

        Where the window is too small for it, a shorter history is better than a refusal.
        """
        body, span = job.body, read.span
        slices = elements(body, span) or ()
        last = [decode(memoryview(body)[start:end]) for start, end in slices[-_LAST_MESSAGES:]]
        if not asks_for_summary(last):
            return False
        window = job.sheet_of(read.model).window
        return window is None or len(body) <= window * _BYTES_PER_TOKEN

    def _grown(self, job: Job, found: Found, read: Read) -> Edited | None:
        compressor = self._compressor(job, read)
        grown = self._conversations.grown(
            found, job.body, read, compressor, depth=self._settings.depth
        )
        return None if grown is None else again(job, grown, read)

    def _doubt(self, job: Job, detail: str, *, model: str | None = None) -> Edited:
        deep = deeper_than(job.body, self._settings.depth)
        return own_body(job.body, TOO_DEEP if deep else UNREAD, model=model, detail=detail)

    def _in_full(self, job: Job, read: Read, compressor: Compressor, found: Found | None) -> Edited:
        known = found.seen.conversation if found is not None else None
        last = known.hindsight if known is not None else None
        task = Task(
            body=job.body,
            route=job.route,
            read=read,
            sheet=job.sheet_of(read.model).for_ttl(read.ttl),
            agent=job.agent,
            edited_before=None if found is None else found.seen.cut is not None,
            refused=known is not None and known.refused,
            admits=self._conversations.admits(),
            looked=last.steps if last is not None else None,
            epoch=last.epoch if last is not None else 0,
            secret=SECRET,
        )
        worked: Worked | None = None if job.away is None else job.away(task, job.gone)
        if worked is None:
            worked = worked_out(task, self._settings, compressor)
        conversation = known or ConversationState(
            ttl=read.ttl, cached_seconds=task.sheet.ttl_seconds
        )
        return self._taken_in(worked, conversation, found, len(job.body))

    def _taken_in(
        self, worked: Worked, conversation: ConversationState, found: Found | None, size: int
    ) -> Edited:
        """Remember what became of a body, and return it."""
        if worked.edited.conversation is None:
            return worked.edited
        conversation.unread = ()
        conversation.refused = worked.refused
        conversation.took(worked.seconds, size)
        last = conversation.hindsight
        if last is not None:
            last.look(worked.new)
        if worked.hindsight is not None:
            conversation.hindsight = worked.hindsight.after(last)
        if worked.seen is not None:
            self._conversations.remember(
                replace(worked.seen, conversation=conversation),
                instead=found.seen if found is not None and found.place is not None else None,
            )
        return replace(worked.edited, conversation=conversation)

    def _compressor(self, job: Job, read: Read) -> Compressor:
        sheet = job.sheet_of(read.model).for_ttl(read.ttl)
        scorer = Timed(self._settings.scorer, job.until, job.gone)
        if job.pause is None:
            return self._settings.compressor(scorer, sheet, self.counter)
        counter = PausedCounts(self.counter, job.pause)
        return self._settings.compressor(replace(scorer, pause=job.pause), sheet, counter)


def _made_up() -> list[dict[str, Any]]:
    """Return messages of an agent that reads a few files: enough to be edited."""
    made: list[dict[str, Any]] = [{"role": "user", "content": "Find where load_table is defined."}]
    for number in range(1, 13):
        call = {"name": "read", "arguments": f'{{"path": "src/part_{number}.py"}}'}
        said = f"def load_{number}(rows_{number}):  # ID-{number * 7919}\n" * 40
        made += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"call_{number}", "content": said},
        ]
    return made
