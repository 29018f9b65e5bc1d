"""One request body compressed: read, edited by whole steps, every other byte left alone.

Pure apart from what it remembers of bodies it has seen, and that only saves time: the same body
gives the same bytes with an empty memory. Runs in a worker of the pool; what is quick enough for
the event loop says so.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from agora.adapters.rules import CATALOGUE
from agora.adapters.spoken import ACTS_BY_TEXT
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Compression, Reason, Rung
from agora.core.memo import Memo, Occupancy, occupancy, share_out
from agora.core.past import Past
from agora.core.prices import PriceSheet, sheet_for
from agora.core.request import Observations
from agora.core.scorer import Scorer
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Anchor, Step
from agora.core.worth import StepWorth, Worth
from agora.errors import AgoraError, ScoreError
from agora.gateway.body import (
    Kept,
    Span,
    Unreadable,
    decode,
    deeper_than,
    elements,
    encode,
    fields,
    nested,
    rewrite,
    splice,
)
from agora.gateway.config import RECALL_AGENTS
from agora.gateway.conversations import Conversations, Found, Seen, Talk, behind, follows
from agora.gateway.hindsight import Hindsight, Looked
from agora.gateway.recall import answered, offered, passes_recall, put_tools
from agora.gateway.route import CHAT, Route
from agora.gateway.summaries import OWN_SUMMARY, asks_for_summary, may_ask

TOO_DEEP = "too_deep"
"""The reason of a body that is refused."""
UNREAD = "unread"
"""The reason of a body in which the messages were not found, or not beyond doubt."""
CONTINUED = "continued"
"""The reason of a body sent with its last edit because there was no time for a new one."""
AHEAD = "ahead"
"""The reason of a job that is about no body at all."""
NOT_ADMITTED = "not_admitted"
"""The reason of a body whose conversation found no room when its first edit was due."""
_SCORER_SHARE = 0.6
"""How much of the deadline the scorer may use; what is left is for the rule."""
LINES_SHARE = Compressor().skeleton_share
_QUICK_BYTES = 64 << 10
_QUICK_STEPS = 1_000
"""Up to here what is new is read in well under a millisecond, wherever that happens."""
_LAST_MESSAGES = 4
"""How many messages are looked at for a request to sum up: system text may follow it."""
_BYTES_PER_TOKEN = 4
"""About what a token takes in a body, for a guess at whether it fits into the window."""
_SHORT_CHARACTERS = 64
_SHORT_MOST = 25_000
_MEMORY_SHARE = 0.25
"""How much of the memory is for conversations; the rest is for texts that were read."""
_BYTES_PER_CHARACTER = 6
"""About what the memos keep alive for each character that they count: a guess that kept 64 large
sessions within 410 MB, not a calibration."""
_BATCH_STEPS = 4
"""Steps between two looks at the clock: at 28 ms a step the most that runs on for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A body, and what is known of its request."""

    body: bytes
    route: Route
    sheet_of: Callable[[str | None], PriceSheet]
    """The prices for the model that the body names."""
    model: str | None = None
    """The model that the path names, where it is not in the body."""
    tenant: str = ""
    agent: str = ""
    """What the client calls itself: its User-Agent."""
    until: float = float("inf")
    """When the caller stops waiting, by `time.monotonic`."""
    gone: Callable[[], bool] = bool
    """Tells that nobody waits any more."""
    ahead: Talk | None = None
    """A conversation whose newest steps are to be read, so that its next edit takes less time;
    then nothing else is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What is sent instead of the client's body, and how it came about."""

    body: bytes
    reason: str
    rung: Rung
    model: str | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    newest_tokens: int = 0
    """What the newest step and all after it cost: what a warm cache would not have known yet."""
    at_epoch: bool = False
    """Whether the prompt was edited at this very call, so that the cache could not know it."""
    stream: bool = False
    detail: str = ""
    epoch: int = 0
    """How many steps came before the edit that it has; 0 for the client's own body."""
    talk: Talk | None = None
    """Its conversation, where that is remembered."""

    @property
    def changed(self) -> bool:
        """Whether it is not the client's own body."""
        return self.rung is not Rung.UNTOUCHED

    @property
    def hint(self) -> str:
        """What the client may want to change, in words for a header; empty most of the time."""
        return self.detail if self.detail == ACTS_BY_TEXT else ""

    @property
    def rule(self) -> str:
        """The code of the rule that the client's history breaks, where that is the reason."""
        reason, _, code = self.reason.partition(":")
        if reason != Reason.ILLEGAL_INPUT:
            return ""
        code = code or self.detail.partition(" ")[0]
        return code if code in CATALOGUE else "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorSettings:
    """How every body is compressed."""

    scorer: Scorer
    keep_ratio: float = 0.25
    k_recent: int = 2
    lines: bool = True
    least_tokens: int = 0
    """A prompt below this is left alone, unless the window forces an edit."""
    schedule: str = "by_price"
    observations: Observations | None = None
    recall: bool = False
    recall_agents: tuple[str, ...] = RECALL_AGENTS
    """How the User-Agent of agents begins that recall is offered to."""
    depth: int = 64
    shadow: bool = False
    """Whether the names that an edit takes away are remembered, to see if they are used."""
    memory_bytes: int = 256 << 20
    """For conversations and for texts that were read. The texts are remembered for the process, so
    that the last editor made says how many."""


class Look(NamedTuple):
    """What the event loop itself can say of a body."""

    edited: Edited | None = None
    """What becomes of it, if nothing is due."""
    talk: Talk | None = None
    """Its conversation: there is an edit to continue with when time runs out."""


class Editor:
    """Compresses bodies. Safe to call from several threads."""

    def __init__(self, settings: EditorSettings) -> None:
        self._settings = settings
        self.counter = _Counter()
        conversations = int(settings.memory_bytes * _MEMORY_SHARE)
        self._conversations = Conversations(conversations)
        if settings.memory_bytes:
            share_out((settings.memory_bytes - conversations) // _BYTES_PER_CHARACTER)
        # New messages are read on their own there: with a recall, or a user who is the world, they
        # say other things than behind those before them. Agents found to act by text are not
        # remembered either: their steps hold no calls, and only those that do are.
        self._remembers = not settings.recall and settings.observations != "user"

    def __call__(self, job: Job) -> Edited:
        """Return the edited body, or the client's own with the reason."""
        if job.ahead is not None:
            self._read_ahead(job.ahead)
            return _own(job, AHEAD)
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
                return Look()
            found, read = begun
            if may_ask(job.body, found.start + found.seen.end, len(job.body)):
                # Perhaps a request for a summary: never continue that with an edited history.
                return Look()
            talk = found.seen.talk
            if talk.refused:
                return Look(_known(job, found, read, NOT_ADMITTED), talk)
            size = len(job.body) - found.start - found.seen.end
            if found.place is None or size > _QUICK_BYTES or self._long(found):
                return Look(talk=talk)
            body, spans = job.body, read.spans
            others = (
                s for name, s in spans.items() if s != read.span and name not in _OTHER_FIELDS
            )
            if any(deeper_than(body[start:end], self._settings.depth - 1) for start, end in others):
                return Look(talk=talk)
            if job.route.field == "input" and _server_side(body, spans):
                return Look(talk=talk)
            return Look(self._grown(job, found, read), talk)
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
        if self._asks_for_summary(job, read):
            return None
        if not follows(found, job.body, read.span, least=self._settings.k_recent):
            return None
        return _known(job, found, read, why)

    def _read_ahead(self, talk: Talk) -> None:
        """Have the scorer read the newest steps of a conversation: it remembers their texts."""
        steps, talk.unread = talk.unread, ()
        # A cross-encoder reads pairs and remembers nothing.
        if steps and type(self._settings.scorer).__name__ != "CrossEncoderScorer":
            with suppress(Exception):
                self._settings.scorer.score(Anchor("", steps[-1].observation), steps)

    def warm(self) -> None:
        """Compress a made-up conversation, so that the first real one finds all of it loaded."""
        editor = Editor(replace(self._settings, memory_bytes=0, least_tokens=0))
        body = encode({"model": "", "messages": _made_up()})
        editor(Job(body=body, route=CHAT, sheet_of=lambda _: sheet_for("").no_cache()))

    def occupancy(self) -> dict[str, Occupancy]:
        """Return how full what is remembered is: the conversations, and each memo of texts."""
        return {"conversations": self._conversations.occupancy(), **occupancy()}

    def _begun(self, job: Job) -> "tuple[Found, _Read] | None":
        """Return what a body begins with, by a look at what follows only."""
        if not self._remembers:
            return None
        for found in self._conversations.begins(job.tenant, job.route.format, job.body):
            rest = behind(found, job.body, job.route.field)
            if rest is not None and (read := self._read(job, *rest)).key == found.seen.key:
                return found, read
        return None

    def _found(self, job: Job) -> "tuple[Found, _Read]":
        """Return the same by a look at where all fields stand.

        Raises:
            LookupError: nothing of the kind was seen.
        """
        spans = fields(job.body) if self._remembers else None
        span = None if spans is None else spans.get(job.route.field)
        if spans is None or span is None or job.body[span[0] : span[0] + 1] != b"[":
            raise LookupError
        read = self._read(job, spans, span)
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
            model = _text(body, spans.get("model"))
            return self._doubt(job, "there is no list of messages", model=model)
        read = self._read(job, spans, span)
        depth = self._settings.depth
        if any(
            deeper_than(body[start:end], depth - 1)
            for name, (start, end) in spans.items()
            if name != job.route.field
        ):
            return _own(job, TOO_DEEP, model=read.model)
        if job.route.field == "input" and _server_side(body, spans):
            return _own(job, Reason.SERVER_SIDE_HISTORY, model=read.model)
        if self._asks_for_summary(job, read):
            # Not remembered either: the conversation continues from the summary, not from here.
            return replace(_own(job, OWN_SUMMARY, model=read.model), stream=read.stream)
        found = self._conversations.find(read.key, body, span) if self._remembers else None
        if found is not None and found.seen.talk.refused:
            return _known(job, found, read, NOT_ADMITTED)
        again = None if found is None else self._grown(job, found, read)
        if again is not None:
            return again
        compressor = self._compressor(job, job.sheet_of(read.model))
        return self._in_full(job, read, compressor, found)

    def _asks_for_summary(self, job: Job, read: "_Read") -> bool:
        """Tell whether an agent wants its own history summed up, and the whole of it would fit.

        Where the window is too small for it, a shorter history is better than a refusal.
        """
        body, span = job.body, read.span
        if not may_ask(body, *span):
            return False
        slices = elements(body, span) or ()
        last = [decode(memoryview(body)[start:end]) for start, end in slices[-_LAST_MESSAGES:]]
        if not asks_for_summary(last):
            return False
        window = job.sheet_of(read.model).window
        return window is None or len(body) <= window * _BYTES_PER_TOKEN

    def _read(self, job: Job, spans: dict[str, Span], span: Span) -> "_Read":
        model = _text(job.body, spans.get("model")) or job.model
        stream = _is_true(job.body, spans.get("stream"))
        return _Read(spans, span, model, stream, _key(job, spans, model))

    def _grown(self, job: Job, found: Found, read: "_Read") -> Edited | None:
        compressor = self._compressor(job, job.sheet_of(read.model))
        grown = self._conversations.grown(
            found, job.body, read.spans, read.span, compressor, depth=self._settings.depth
        )
        return None if grown is None else _of_again(job, grown, read)

    def _doubt(self, job: Job, detail: str, *, model: str | None = None) -> Edited:
        deep = deeper_than(job.body, self._settings.depth)
        return _own(job, TOO_DEEP if deep else UNREAD, model=model, detail=detail)

    def _in_full(
        self, job: Job, read: "_Read", compressor: Compressor, found: Found | None
    ) -> Edited:
        body, span, model = job.body, read.span, read.model
        slices = elements(body, span)
        messages = decode(memoryview(body)[span[0] : span[1]])
        if nested(messages, self._settings.depth - 1):
            return _own(job, TOO_DEEP, model=model)
        if slices is None or len(slices) != len(messages) or not messages:
            return _own(job, UNREAD, model=model, detail="the messages are not found")
        options = {name: _value(body, read.spans.get(name)) for name in _OTHER_FIELDS}
        options = _compress_options(options, job.route)
        tools = options["tools"]
        settings = self._settings
        recall = settings.recall and passes_recall(job.agent, settings.recall_agents)
        if recall:
            options["tools"] = offered(tools, job.route.format)
        compression = compressor.compress(
            messages,
            model=model,
            format=job.route.format,
            observations=self._settings.observations,
            **options,
        )
        talk = found.seen.talk if found is not None else Talk()
        talk.unread = ()
        if compression.changed and self._remembers and not self._admitted(talk, found, compression):
            compression = replace(compression, rung=Rung.UNTOUCHED, reason=Reason.NOT_WORTH_IT_YET)
        self._look_back(talk, compression)
        new = compression.messages
        positions: Sequence[int] = compression.positions
        if not compression.changed:
            new, positions = messages, range(len(messages))
        if recall and compression.trajectory is not None:
            new = answered(new, job.route.format, compression.trajectory)
        kept = _kept(body, slices, messages, new, positions)
        if kept is None:
            return _own(job, UNREAD, model=model, detail="an edited message is not sliced")
        untouched = not compression.changed and all(keep.text is None for keep in kept)
        if self._remembers:
            head = {name: value for name, value in read.spans.items() if value[1] <= span[0]}
            self._conversations.remember(
                read.key,
                talk,
                body,
                head,
                slices,
                compression,
                kept,
                messages,
                compressor,
                instead=found.seen if found is not None and found.place is not None else None,
            )
        if untouched and not (recall and options["tools"] is not tools):
            return _unchanged(job, compression, read, talk)
        out = [body[: span[0] + 1], body[span[0] + 1 : slices[0][0]]]
        out += splice(body, slices, kept)
        out.append(body[slices[-1][1] :])
        edited = b"".join(out)
        if recall and options["tools"] is not tools:
            edited = put_tools(edited, options["tools"])
        return _edited(compression, read, edited, talk)

    def _look_back(self, talk: Talk, compression: Compression) -> None:
        """Note what the newest steps say about the last edit, and what a new one takes away."""
        if not self._remembers:
            return
        trajectory, last = compression.trajectory, talk.hindsight
        if last is not None and trajectory is not None:
            last.look(trajectory.steps[last.steps :])
        if compression.changed and (last is None or last.epoch != compression.epoch):
            found = last.take() if last is not None else Looked()
            talk.hindsight = Hindsight(compression, names=self._settings.shadow, found=found)

    def _admitted(self, talk: Talk, found: Found | None, compression: Compression) -> bool:
        """Tell whether a conversation is edited: decided at its first edit, and then for good."""
        trajectory = compression.trajectory
        if found is not None:
            first = found.seen.cut is None
        else:
            # One that is not known here may have been edited before, by another process.
            first = trajectory is not None and compression.epoch == len(trajectory.steps)
        if first and not self._conversations.admits():
            talk.refused = True
        return not talk.refused

    def _compressor(self, job: Job, sheet: PriceSheet) -> Compressor:
        settings = self._settings
        return Compressor(
            scorer=Timed(settings.scorer, job.until, job.gone),
            budget=Budget(keep_ratio=settings.keep_ratio),
            k_recent=settings.k_recent,
            schedule="every_call" if settings.schedule == "every_call" else "by_price",
            least_tokens=settings.least_tokens,
            sheet=sheet,
            skeleton_share=LINES_SHARE if settings.lines else 0.0,
            counter=self.counter,
        )


_OTHER_FIELDS = (
    *("system", "instructions", "systemInstruction", "system_instruction"),
    *("tools", "toolConfig", "thinking", "additionalModelRequestFields"),
)
"""The fields outside the messages that an edit depends on, of every format."""


def _compress_options(found: dict[str, Any], route: Route) -> dict[str, Any]:
    """Return what the compressor takes besides messages, from the fields of one format."""
    tools, thinking, system = found["tools"], None, None
    if route.format == "anthropic":
        system, thinking = found["system"], _thinking(found["thinking"])
    elif route.format == "responses":
        system = found["instructions"]
    elif route.format == "gemini":
        system = found["systemInstruction"] or found["system_instruction"]
    elif route.format == "bedrock":
        more = found["additionalModelRequestFields"]
        setting = more.get("thinking") if isinstance(more, dict) else None
        system, tools, thinking = found["system"], found["toolConfig"] or {}, _thinking(setting)
    return {"system": system, "tools": tools, "thinking": thinking}


def _key(job: Job, spans: dict[str, Span], model: str | None) -> tuple[object, ...]:
    """Return everything an edit depends on besides the messages."""
    view = memoryview(job.body)
    options = tuple(
        hash(view[spans[name][0] : spans[name][1]]) if name in spans else None
        for name in _OTHER_FIELDS
    )
    return (job.tenant, job.route.format, model, options)


@dataclass(frozen=True, slots=True)
class _Read:
    """What one look at a body gave."""

    spans: dict[str, Span]
    span: Span
    model: str | None
    stream: bool
    key: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Timed:
    """A scorer that stops when its time is up, or when nobody waits any more.

    Encoders are asked for a few steps at a time, with a look at the clock in between; the others
    need milliseconds for all of them. What it raises sends the compressor to its rule.
    """

    scorer: Scorer
    until: float = float("inf")
    gone: Callable[[], bool] = bool
    clock: Callable[[], float] = time.monotonic
    began: float = field(default_factory=time.monotonic)

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return the scorer's scores.

        Raises:
            TooLateError: the scorer's share of the deadline is used up.
        """
        try:
            return self._scores(anchor, steps)
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Native code panics with what is no Exception; to the ladder it is one like any other.
            raise ScoreError(type(self.scorer).__name__, type(error).__name__) from None

    def worth(self, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
        """Return what the scorer says the parts of steps are worth, for forms.

        Raises:
            TooLateError: the scorer's share of the deadline is used up.
        """
        if not isinstance(self.scorer, Worth):
            return [StepWorth(s, s) for s in self.score(past.anchor, past.steps)]
        self._look()
        return self.scorer.worth(past, held)

    def _scores(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        kind = type(self.scorer).__name__
        if kind not in ("CrossEncoderScorer", "EmbeddingScorer"):
            self._look()
            return self.scorer.score(anchor, steps)
        scores: list[float] = []
        for at in range(0, len(steps), _BATCH_STEPS):
            self._look()
            scores += self.scorer.score(anchor, steps[at : at + _BATCH_STEPS])
        if kind == "CrossEncoderScorer":
            return scores
        # Compares steps with each other, so it is asked about all of them together. It has their
        # vectors by now.
        self._look()
        return self.scorer.score(anchor, steps)

    def _look(self) -> None:
        share = self.began + (self.until - self.began) * _SCORER_SHARE
        if self.clock() > share or self.gone():
            raise TooLateError


class TooLateError(AgoraError):
    """The scorer's share of the deadline is used up."""

    def __str__(self) -> str:
        return "the scorer's share of the deadline is used up"


class _Counter:
    """Counts as the estimate does, and remembers: the same texts come back with every request.

    Long ones because reading them takes long, names because there are so many of them.
    """

    __slots__ = ("_older", "_short")

    def __init__(self) -> None:
        self._short: dict[str, int] = {}
        self._older: dict[str, int] = {}

    def count(self, text: str) -> int:
        size = len(text)
        if size > _SHORT_CHARACTERS:
            return _long_counts(text) if size > 1_000 else _count(text)
        found = self._short.get(text)
        if found is not None:
            return found
        # Two generations: what was used since the last change of them outlives the next.
        found = self._older.get(text)
        if found is None:
            found = _count(text)
        if len(self._short) >= _SHORT_MOST:
            self._older, self._short = self._short, {}
        self._short[text] = found
        return found


_count = EstimatedTokens().count
_long_counts = Memo(_count, 8_000_000, name="token_counts")


def _kept(
    body: bytes,
    slices: Sequence[Span],
    messages: Sequence[Any],
    new: Sequence[Any],
    positions: Sequence[int],
) -> list[Kept] | None:
    kept: list[Kept] = []
    for message, position in zip(new, positions, strict=True):
        old = messages[position]
        if message is old:
            kept.append(Kept(position))
            continue
        text = rewrite(body, slices[position], old, message)
        if text is None:
            return None
        kept.append(Kept(position, text))
    return kept


def _own(job: Job, reason: str, *, model: str | None = None, detail: str = "") -> Edited:
    return Edited(
        body=job.body, reason=str(reason), rung=Rung.UNTOUCHED, model=model, detail=detail
    )


def _reason(compression: Compression) -> str:
    """Return the reason in one word; of an illegal request with the code of the rule it breaks."""
    reason = str(compression.reason)
    return f"{reason}:{compression.rule}" if compression.rule else reason


def _unchanged(job: Job, compression: Compression, read: _Read, talk: Talk) -> Edited:
    return Edited(
        body=job.body,
        reason=NOT_ADMITTED if talk.refused else _reason(compression),
        rung=Rung.UNTOUCHED,
        model=read.model,
        tokens_before=compression.tokens_before,
        tokens_after=compression.tokens_before,
        stream=read.stream,
        detail=compression.detail,
        talk=talk,
    )


def _edited(compression: Compression, read: _Read, body: bytes, talk: Talk) -> Edited:
    trajectory = compression.trajectory
    newest = at_epoch = 0
    if trajectory is not None and trajectory.steps:
        count = len(trajectory.steps)
        said = sum(u.tokens for u in trajectory.utterances if u.after >= count)
        newest = trajectory.steps[-1].tokens + said + trajectory.pending_tokens
        at_epoch = compression.epoch == count
    return Edited(
        body=body,
        reason=str(compression.reason),
        rung=compression.rung if compression.changed else Rung.SCORED,
        model=read.model,
        tokens_before=compression.tokens_before,
        tokens_after=compression.tokens_after,
        newest_tokens=newest,
        at_epoch=bool(at_epoch),
        stream=read.stream,
        detail=compression.detail,
        epoch=compression.epoch,
        talk=talk,
    )


def _of_again(job: Job, seen: Seen, read: _Read) -> Edited:
    body, cut = job.body, seen.cut
    if cut is None:
        return Edited(
            body=body,
            reason=str(Reason.NOT_WORTH_IT_YET),
            rung=Rung.UNTOUCHED,
            model=read.model,
            tokens_before=seen.tokens,
            tokens_after=seen.tokens,
            stream=read.stream,
            talk=seen.talk,
        )
    return Edited(
        body=cut.of(body, seen.start),
        reason=str(Reason.COMPRESSED),
        rung=cut.rung,
        model=read.model,
        tokens_before=seen.tokens,
        tokens_after=seen.tokens - cut.removed,
        newest_tokens=seen.newest,
        stream=read.stream,
        epoch=cut.epoch,
        talk=seen.talk,
    )


def _known(job: Job, found: Found, read: _Read, why: str) -> Edited:
    """Return a body with the edit that was found, or unchanged if there was none."""
    seen, _, start = found
    cut = seen.cut
    # What was added has not been counted: taken to have as many bytes a token as the rest.
    added = max(0, read.span[1] - 1 - start - seen.end) * seen.tokens // max(1, seen.end)
    tokens = seen.tokens + added
    if cut is None:
        return replace(
            _own(job, why, model=read.model),
            tokens_before=tokens,
            tokens_after=tokens,
            newest_tokens=added,
            stream=read.stream,
            talk=seen.talk,
        )
    steps = 0 if seen.last is None else len(seen.last.sizes.steps)
    return Edited(
        body=cut.of(job.body, start),
        reason=CONTINUED,
        rung=cut.rung,
        model=read.model,
        tokens_before=tokens,
        tokens_after=tokens - cut.removed,
        newest_tokens=added or seen.newest,
        at_epoch=not added and cut.epoch == steps,
        stream=read.stream,
        detail=why,
        epoch=cut.epoch,
        talk=seen.talk,
    )


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


def _server_side(body: bytes, spans: dict[str, Span]) -> bool:
    return any(_value(body, spans.get(name)) for name in ("previous_response_id", "conversation"))


def _value(body: bytes, span: Span | None) -> Any:
    return None if span is None else decode(memoryview(body)[span[0] : span[1]])


def _text(body: bytes, span: Span | None) -> str | None:
    value = _value(body, span)
    return value if isinstance(value, str) else None


def _is_true(body: bytes, span: Span | None) -> bool:
    return span is not None and body[span[0] : span[1]] == b"true"


def _thinking(setting: object) -> bool | None:
    return setting.get("type") != "disabled" if isinstance(setting, dict) else None
