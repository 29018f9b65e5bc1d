"""One request body compressed: read, edited by whole steps, every other byte left alone.

Pure apart from what it remembers of bodies it has seen, and that only saves time: the same body
gives the same bytes with an empty memory. Runs in a worker of the pool, never on the event loop.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agora.adapters.base import Observations
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Compression, Reason, Rung
from agora.core.memo import Memo
from agora.core.prices import PriceSheet
from agora.core.scorer import Scorer
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Anchor, Step
from agora.errors import AgoraError, ScoreError
from agora.gateway.again import Again, Found, Seen, behind
from agora.gateway.body import (
    Kept,
    Span,
    Unreadable,
    decode,
    deeper_than,
    elements,
    fields,
    nested,
    rewrite,
    splice,
)
from agora.gateway.recall import answered, offered, put_tools
from agora.gateway.route import Route

TOO_DEEP = "too_deep"
"""The reason of a body that is refused."""
UNREAD = "unread"
"""The reason of a body in which the messages were not found, or not beyond doubt."""
_SCORER_SHARE = 0.6
"""How much of the deadline the scorer may use; what is left is for the rule."""
_LINES_SHARE = Compressor().skeleton_share
_QUICK_BYTES = 64 << 10
_QUICK_STEPS = 1_000
"""Up to here what is new is read in well under a millisecond, wherever that happens."""
_SHORT_CHARACTERS = 64
_SHORT_MOST = 50_000
_BATCH_STEPS = 4
"""Steps between two looks at the clock: at 28 ms a step the most that runs on for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A body, and what is known of its request."""

    body: bytes
    route: Route
    sheet_of: Callable[[str | None], PriceSheet]
    """The prices for the model that the body names."""
    tenant: str = ""
    until: float = float("inf")
    """When the caller stops waiting, by `time.monotonic`."""
    gone: Callable[[], bool] = bool
    """Tells that nobody waits any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What goes on instead of the client's body, and how it came about."""

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

    @property
    def changed(self) -> bool:
        """Whether it is not the client's own body."""
        return self.rung is not Rung.UNTOUCHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How every body is compressed."""

    scorer: Scorer
    keep_ratio: float = 0.25
    k_recent: int = 2
    lines: bool = True
    min_tokens: int = 0
    """A prompt below this is left alone, unless the window forces an edit."""
    schedule: str = "by_price"
    observations: Observations | None = None
    recall: bool = False
    depth: int = 64
    remember_bytes: int = 64 << 20


class Editor:
    """Compresses bodies. Safe to call from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.counter = _Counter()
        self._again = Again(settings.remember_bytes)
        # New messages are read on their own there: with a recall, or a user who is the world, they
        # say other things than behind those before them.
        self._remembers = not settings.recall and settings.observations is None

    def __call__(self, job: Job) -> Edited:
        """Return the edited body, or the client's own with the reason."""
        try:
            return self._edit(job)
        except Unreadable:
            return self._doubt(job, "a value of it is not JSON")

    def again(self, job: Job) -> Edited | None:
        """Return what becomes of a body that continues one seen before, if nothing is due there.

        Quick enough for the event loop: the beginning is compared and not read, and where much is
        left to read nothing is returned, as in any doubt.
        """
        body, route = job.body, job.route
        if not self._remembers:
            return None
        found = self._again.begins(job.tenant, route.format, body)
        if found is None or len(found.place.sizes.steps) > _QUICK_STEPS:
            return None
        if len(body) - found.start - found.place.end > _QUICK_BYTES:
            return None
        try:
            rest = behind(found, body, route.field)
            if rest is None:
                return None
            spans, span = rest
            read = self._read(job, spans, span)
            if read.key != found.seen.key:
                return None
            others = (s for name, s in spans.items() if s != span and name not in _BESIDE)
            if any(deeper_than(body[start:end], self._settings.depth - 1) for start, end in others):
                return None
            if route.field == "input" and _server_side(body, spans):
                return None
            return self._grown(job, found, read)
        except Unreadable:
            return None

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
        if self._remembers:
            found = self._again.find(read.key, body, span)
            again = None if found is None else self._grown(job, found, read)
            if again is not None:
                return again
        return self._in_full(job, read, self._compressor(job, job.sheet_of(read.model)))

    def _read(self, job: Job, spans: dict[str, Span], span: Span) -> "_Read":
        model = _text(job.body, spans.get("model"))
        stream = _is_true(job.body, spans.get("stream"))
        return _Read(spans, span, model, stream, _key(job, spans, model))

    def _grown(self, job: Job, found: Found, read: "_Read") -> Edited | None:
        compressor = self._compressor(job, job.sheet_of(read.model))
        grown = self._again.grown(
            found, job.body, read.spans, read.span, compressor, depth=self._settings.depth
        )
        return None if grown is None else _of_again(job, grown, read)

    def _doubt(self, job: Job, detail: str, *, model: str | None = None) -> Edited:
        deep = deeper_than(job.body, self._settings.depth)
        return _own(job, TOO_DEEP if deep else UNREAD, model=model, detail=detail)

    def _in_full(self, job: Job, read: "_Read", compressor: Compressor) -> Edited:
        body, span, model = job.body, read.span, read.model
        slices = elements(body, span)
        messages = decode(memoryview(body)[span[0] : span[1]])
        if nested(messages, self._settings.depth - 1):
            return _own(job, TOO_DEEP, model=model)
        if slices is None or len(slices) != len(messages) or not messages:
            return _own(job, UNREAD, model=model, detail="the messages are not found")
        beside = {name: _value(body, read.spans.get(name)) for name in _BESIDE}
        if job.route.format != "anthropic":
            beside["thinking"] = None
            beside["system"] = beside.pop("instructions") if job.route.field == "input" else None
        else:
            beside["thinking"] = _thinking(beside["thinking"])
        beside.pop("instructions", None)
        tools = beside["tools"]
        recall = self._settings.recall
        if recall:
            beside["tools"] = offered(tools, job.route.format)
        compression = compressor.compress(
            messages,
            model=model,
            format=job.route.format,
            observations=self._settings.observations,
            **beside,
        )
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
        if self._remembers and _lasts(compression):
            head = {name: value for name, value in read.spans.items() if value[1] <= span[0]}
            self._again.remember(
                read.key, body, head, slices, compression, kept, messages, compressor
            )
        if untouched and not (recall and beside["tools"] is not tools):
            return _unchanged(job, compression, read)
        out = [body[: span[0] + 1], body[span[0] + 1 : slices[0][0]]]
        out += splice(body, slices, kept)
        out.append(body[slices[-1][1] :])
        edited = b"".join(out)
        if recall and beside["tools"] is not tools:
            edited = put_tools(edited, beside["tools"])
        return _edited(compression, read, edited)

    def _compressor(self, job: Job, sheet: PriceSheet) -> Compressor:
        settings = self._settings
        return Compressor(
            scorer=Timed(settings.scorer, job.until, job.gone),
            budget=Budget(keep_ratio=settings.keep_ratio),
            k_recent=settings.k_recent,
            schedule="every_call" if settings.schedule == "every_call" else "by_price",
            least_tokens=settings.min_tokens,
            sheet=sheet,
            skeleton_share=_LINES_SHARE if settings.lines else 0.0,
            counter=self.counter,
        )


_BESIDE = ("system", "instructions", "tools", "thinking")
"""The fields beside the messages that an edit depends on."""


def _key(job: Job, spans: dict[str, Span], model: str | None) -> tuple[object, ...]:
    """Return all that an edit depends on beside the messages."""
    beside = tuple(
        job.body[spans[name][0] : spans[name][1]] if name in spans else b"" for name in _BESIDE
    )
    return (job.tenant, job.route.format, model, beside)


def _lasts(compression: Compression) -> bool:
    if compression.reason is Reason.NOT_WORTH_IT_YET:
        return True
    # By the rule because there was no time: the next call may have it.
    return compression.changed and compression.rung is Rung.SCORED


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

    __slots__ = ("_count", "_long", "_short")

    def __init__(self) -> None:
        self._count = EstimatedTokens().count
        self._long = Memo(self._count, 16_000_000)
        self._short: dict[str, int] = {}

    def count(self, text: str) -> int:
        size = len(text)
        if size > _SHORT_CHARACTERS:
            return self._long(text) if size > 1_000 else self._count(text)
        try:
            return self._short[text]
        except KeyError:
            pass
        if len(self._short) >= _SHORT_MOST:
            self._short = {}
        counted = self._short[text] = self._count(text)
        return counted


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


def _unchanged(job: Job, compression: Compression, read: _Read) -> Edited:
    return Edited(
        body=job.body,
        reason=str(compression.reason),
        rung=Rung.UNTOUCHED,
        model=read.model,
        tokens_before=compression.tokens_before,
        tokens_after=compression.tokens_before,
        stream=read.stream,
        detail=compression.detail,
    )


def _edited(compression: Compression, read: _Read, body: bytes) -> Edited:
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
    )


def _of_again(job: Job, seen: Seen, read: _Read) -> Edited:
    body, model, stream = job.body, read.model, read.stream
    if seen.edited is None:
        return Edited(
            body=body,
            reason=str(Reason.NOT_WORTH_IT_YET),
            rung=Rung.UNTOUCHED,
            model=model,
            tokens_before=seen.tokens,
            tokens_after=seen.tokens,
            stream=stream,
        )
    tail = memoryview(body)[seen.end :]
    return Edited(
        body=b"".join((memoryview(body)[: seen.start], seen.edited, tail)),
        reason=str(Reason.COMPRESSED),
        rung=Rung.SCORED,
        model=model,
        tokens_before=seen.tokens,
        tokens_after=seen.tokens - seen.removed,
        newest_tokens=seen.newest,
        stream=stream,
    )


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
