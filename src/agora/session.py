"""Conversations across their calls: states stored under the messages before them.

    session = agora.Session()
    compression = session.compress(messages, model="claude-opus-5")
    answer = client.messages.create(model="claude-opus-5", messages=compression.messages)
    session.answered(compression, answer=answer, usage=answer.usage)

As in a provider's cache, a state is found by the longest stored prefix of the messages, compared by
content. So conversations that begin alike share states until they differ, and a rewound or forked
one finds the state of that moment. A call that continues a known one reads only the new messages,
and repeats the edit in force as it was written. A lost state costs one write of the whole prompt.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

from agora.bound_thinking import binds, remove_until
from agora.compressor import Compressor, Since, later_decisions, sentence
from agora.core.calls import Billed
from agora.core.compression import Compression, Reason, in_shadow, untouched
from agora.core.repeats import NO_REPEATS, Habit, Repeats, count_repeats
from agora.core.request import Observations, Request
from agora.core.schedule import EditsMode, State, advance, call_of
from agora.core.settings import step_numbers
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.formats import broken_rules, format_named, known_format, parse
from agora.formats.cache_ttl import asked_ttl
from agora.formats.sdk_objects import to_dicts, with_sdk_objects
from agora.formats.usage import Usage, read_usage
from agora.reading import Reading, read_on, reading_of
from agora.rewrite import Rewrite, answer_marks, beginning_of, digests_of, rewrite_of
from agora.sent_calls import SentCall, SentCalls
from agora.summaries import asks_for_summary

MOST_BYTES = 64 << 20
_NEWEST = 8
"""So many of the newest messages are searched for a mark with the lifetime of the cache."""
_MOST_SCALE = 5
"""How far a provider's count of a prompt may be from ours."""
_LAST_MESSAGES = 4
"""How many messages may hold a request for a summary: system text can follow it."""


class Place(NamedTuple):
    """The place of a request among the stored calls."""

    request: Request
    pins: frozenset[int] = frozenset()
    digests: Sequence[bytes] = ()
    """A digest after each of its messages; empty if they cannot be compared."""
    since: Since = Since()
    last: SentCall | None = None
    """The call that it continues."""
    parent: bytes = b""
    """The digest of that call."""
    answers: int = 0
    """How many answers of the model came since: messages of the agent in a row are one."""
    rewound: bool = False
    """True if it left the branch on which the edit in force was made."""

    @property
    def is_same(self) -> bool:
        """True if these very messages were sent before."""
        return self.last is not None and self.last.messages == len(self.digests)


class Made(NamedTuple):
    """The decision on a request. It has the caller's messages only in an edit."""

    account: Compression
    rewrite: Rewrite | None = None
    reading: Reading | None = None
    is_checked: bool = True
    """True if the messages with this edit were held against the provider's rules."""


class Session:
    """Any number of conversations. Safe to use from several threads.

    Args:
        compressor: Decides and writes; one with the defaults if None.
        clock: Returns seconds; its differences are silences.
        most_bytes: How much memory states and edits may take. The least recently used go first.
    """

    def __init__(
        self,
        compressor: Compressor | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.compressor = compressor or Compressor()
        self._policy = lru_cache(maxsize=64)(self.compressor.policy)
        self._clock = clock
        self._calls = SentCalls(most_bytes)
        self._lock = threading.Lock()

    def compress(
        self,
        messages: Any,
        *,
        model: str | None = None,
        format: str | None = None,
        system: object = None,
        tools: object = None,
        thinking: bool | None = None,
        pins: Collection[int] = (),
        observations: Observations | None = None,
    ) -> Compression:
        """Return the messages to send instead. The arguments are those of `Compressor.compress`.

        Raises:
            SettingError: A pin is not a valid step number.
            UnknownFormatError: `format` is not the name of a format.
            AgoraError: Any other error, only if the compressor is strict.
        """
        pinned = step_numbers(pins)
        if format:
            known_format(format)
        request: Request | None = None
        try:
            request = self.compressor.request(
                messages,
                model=model,
                format=format,
                system=system,
                tools=tools,
                thinking=thinking,
                observations=observations,
            )
            return with_sdk_objects(self._send(request, pinned), request, messages)
        except Exception as error:
            return self.compressor.failed(error, messages, request, format)

    def answered(
        self,
        compression: Compression,
        *,
        answer: Any = None,
        usage: Any = None,
        note: Sequence[float] | None = None,
    ) -> None:
        """Note that the provider answered a call with success.

        Args:
            compression: The compression that was sent.
            answer: The answer: its body, its messages, or an object of the SDK; or the words that
                `UsageStream.words` has of it. Without it silence is not measured.
            usage: Its usage, as the provider reported it or as `Usage`.
            note: Numbers to find again in `SentCall.note` at the next call.
        """
        usage = usage if isinstance(usage, Usage) else read_usage(to_dicts(usage))
        marks = answer_marks(compression.format, to_dicts(answer))
        billed = None
        if usage is not None and _is_credible(usage.prompt, compression.tokens_after):
            billed = Billed(usage.uncached, usage.read, usage.written, usage.output)
        with self._lock:
            call = self._calls.get(compression.digest)
            if call is not None:
                ended = self._clock() if marks else None
                call = call._replace(answered=True, answer=marks, ended=ended, usage=billed)
                self._calls.put(compression.digest, call._replace(note=note))

    def refused(
        self, compression: Compression, *, about_thinking: bool = False
    ) -> Compression | None:
        """Return the messages for the single retry after a refusal, or None.

        A refused edit is followed by the caller's own messages, and its conversation is not edited
        again. On a model that binds thinking all of it is taken out. If the refusal is
        `about_thinking`, the edit itself stays.
        """
        request = compression.request
        with self._lock:
            call = self._calls.get(compression.digest)
        # The messages identify the call: another one may have been refused meanwhile.
        was_edited = compression.reason is Reason.COMPRESSED
        if call is None or request is None or not (was_edited or about_thinking):
            return None
        older = len(request.messages) if binds(request) else 0
        if not about_thinking:
            state = call.state and call.state._replace(edit=None, removed=0)
            account = _as_it_came(compression, Reason.REFUSED_BEFORE)
            call = call._replace(
                state=state, key=b"", sent_key=b"", rewrite=None, held=True, account=account
            )
        elif not older:
            return None
        call = call._replace(older=older)
        with self._lock:
            self._calls.put(compression.digest, call)
        return self._written(request, call, compression.digest)

    def rejected(self, compression: Compression) -> None:
        """Note that the retry was refused as well, so the edit was not the cause."""
        with self._lock:
            self._calls.drop(compression.digest)

    def rows(self, most: int = 4_096) -> list[list[Any]]:
        """Return the newest answered calls as JSON: digests and numbers, no text."""
        with self._lock:
            return self._calls.rows(most)

    def load(self, rows: Iterable[Sequence[Any]]) -> None:
        """Continue from the rows of another process; one that cannot be read is left out."""
        with self._lock:
            for row in rows:
                with suppress(ValueError, TypeError):
                    digest, *numbers = row
                    self._calls.put(bytes.fromhex(digest), SentCall.of_row(numbers))

    @property
    def used_bytes(self) -> int:
        """About the memory that the session takes, in bytes."""
        return self._calls.bytes

    # The parts of a call, for a caller that decides in another process.

    def find(self, request: Request, pins: frozenset[int] = frozenset(), owner: str = "") -> Place:
        """Return the place of a request among the known calls. Owners never share a state."""
        messages = request.messages
        if not isinstance(messages, list) or not messages:
            return Place(request, pins)
        try:
            digests = digests_of(messages, f"{owner} {request.format}")
        except ValueError:
            return Place(request, pins)
        since = Since(beginning=beginning_of(request))
        acts = format_named(request.format).is_agent
        with self._lock:
            parent, last, rewound = self._calls.find(
                digests, lambda at: isinstance(messages[at], dict) and acts(messages[at])
            )
        if last is None:
            return Place(request, pins, digests, since)
        new = messages[last.messages :]
        agent = [isinstance(message, dict) and acts(message) for message in new]
        answers = sum(one and not before for before, one in pairwise([False, *agent]))
        if len(digests) == last.messages and last.since is not None:
            since = last.since
        else:
            idle = None
            # If there are several answers since then, another process received some of them.
            received = answers == 1 and last.answer & answer_marks(request.format, new)
            if last.ended is not None and received:
                idle = self._clock() - last.ended
            older = last.older if answers <= 1 and not rewound else None
            since = since._replace(
                state=last.state, idle_seconds=idle, usage=last.usage, older=older, held=last.held
            )
        return Place(request, pins, digests, since, last, parent, answers, rewound)

    def known(self, place: Place) -> Made | None:
        """Return the edit in force with the new messages, without parsing the conversation.

        None if a new edit may be due.
        """
        last = place.last
        if place.is_same and last is not None and last.account is not None and not place.rewound:
            return Made(last.account, last.rewrite, last.reading)
        return self._continued(place)

    def late(self, place: Place, reason: Reason, detail: str = "") -> Made:
        """Return the edit in force, to be sent if there is no time for a new one."""
        made = None
        with suppress(Exception):
            made = self._continued(place, edits="never")
        if made is not None:
            return made._replace(account=replace(made.account, detail=detail))
        account = untouched(None, reason, format=place.request.format, detail=detail)
        made = Made(replace(account, state=place.last and place.last.state))
        return _in_force(place.last, made) or made

    def settle(self, place: Place, made: Made, *, whole: bool = False) -> Compression | None:
        """Return the compression to send for a request, and store it.

        None if a provider would refuse it, and the conversation was not parsed whole: then it has
        to be, and decided on. With `whole` the caller's own messages go out this once.
        """
        request, digest = place.request, place.digests[-1]
        if asks_for_summary(request.messages[-_LAST_MESSAGES:]) and self._fits(request, made):
            # A new conversation begins after the answer.
            account = _as_it_came(made.account, Reason.OWN_SUMMARY)
            return self._written(request, self._call(place, Made(account)), digest)
        for choice in self._choices(place, made):
            call = self._call(place, choice, whole=whole)
            compression = self._written(request, call, digest)
            if choice.is_checked or not _is_refused(request, compression, call):
                if not (place.is_same and place.last and place.last.answered):
                    with self._lock:
                        self._calls.put(digest, call)
                return compression
        return None

    def _send(self, request: Request, pins: frozenset[int]) -> Compression:
        place = self.find(request, pins)
        if not place.digests:
            compression = self.compressor.compress_request(request, pins)
            shadow = self.compressor.shadow
            return in_shadow(compression, request.messages) if shadow else compression
        try:
            made = self.known(place)
            sent = self.settle(place, made) if made is not None else None
            if sent is not None:
                return sent
            compression = self.compressor.compress_request(request, pins, place.since)
        except Exception as error:
            sent = None
            if place.last is not None and not self.compressor.strict:
                sent = self.settle(place, self.late(place, Reason.FAILED, sentence(error)))
            if sent is None:
                raise
            return sent
        sent = self.settle(place, made_of(self.compressor, request, compression))
        assert sent is not None  # noqa: S101 - the conversation was parsed whole
        return replace(
            sent,
            trajectory=compression.trajectory,
            owners=compression.owners,
            spans=compression.spans,
            observed=compression.observed,
            parse=None,
        )

    def _continued(self, place: Place, edits: EditsMode | None = None) -> Made | None:
        """Return the edit in force with the new messages; None if a new one may be due."""
        request, last, since = place.request, place.last, place.since
        if last is None or last.reading is None or last.state is None or last.account is None:
            return None
        if place.rewound or last.beginning != since.beginning or (last.key and not last.rewrite):
            return None
        counter, before = self.compressor.counting, last.reading.trajectory

        def keeps(steps: Sequence[Step]) -> Collection[int]:
            return self.compressor.kept(replace(before, steps=tuple(steps)), plans=False)

        reading = read_on(request, last.reading, counter, keeps)
        if reading is None:
            return None
        newest = replace(request, messages=request.messages[-_NEWEST:])
        policy = self._policy(request.model, asked_ttl(newest))
        if edits or last.held:
            policy = replace(policy, edits=edits or "never")
        call = call_of(reading.trajectory, policy, pinned=place.pins)
        call = call._replace(
            beginning=since.beginning, idle_seconds=since.idle_seconds, usage=since.usage
        )
        state = advance(last.state, call, policy)
        if state.is_new:
            return None
        reason = Reason.REFUSED_BEFORE if last.held else Reason.NOT_WORTH_IT_YET
        decisions, tokens = last.account.decisions, reading.trajectory.tokens
        why = "after the edit" if last.rewrite else str(reason)
        decisions += later_decisions(reading.trajectory.steps[len(decisions) :], why)
        account = untouched(None, reason, format=request.format)
        account = replace(
            account, tokens_before=tokens, tokens_after=tokens, decisions=decisions, state=state
        )
        made = Made(account, None, reading, is_checked=False)
        return _in_force(last, made) or made

    def _choices(self, place: Place, made: Made) -> Iterator[Made]:
        """Yield the prompts that may be sent, best first: an edit in force as it was written."""
        last, state = place.last, made.account.state
        if last is not None and last.state and state and (made.is_checked or place.rewound):
            repeats = state.edit == last.state.edit and not state.is_new
            in_force = _in_force(last, made) if repeats or place.rewound else None
            if in_force is not None and place.rewound:
                account = replace(in_force.account, state=_rewound(last.state, state))
                in_force = in_force._replace(account=account)
            if in_force is not None:
                yield in_force
        yield made

    def _call(self, place: Place, made: Made, *, whole: bool = False) -> SentCall:
        """Return the record of a sent call."""
        rewrite, state = made.rewrite, made.account.state
        habit, repeats = _repeated(place, made)
        account = replace(made.account, repeats=repeats)
        key = rewrite.key if rewrite is not None else b""
        sent_key = b"" if self.compressor.shadow or whole else key
        makes_edit = rewrite is not None and state is not None and state.is_new
        return SentCall(
            messages=len(place.digests),
            state=state,
            beginning=place.since.beginning,
            key=key,
            sent_key=sent_key,
            older=self._older(place, account, sent_key),
            held=place.since.held,
            since=place.since,
            rewrite=rewrite,
            reading=made.reading,
            account=_without_messages(account),
            habit=habit,
            parent=place.parent,
            edit_digest=place.digests[rewrite.until - 1] if makes_edit and rewrite else b"",
        )

    def _older(self, place: Place, account: Compression, sent_key: bytes) -> int:
        """Return how many of the caller's first messages go without their thinking.

        A model that binds thinking accepts a block only after the prompt that produced it.
        """
        if not binds(place.request):
            return 0
        everything, last = len(place.digests), place.last
        if last is None:
            # Another process may have edited a large prompt: later thinking is bound to that.
            tokens, least = account.tokens_before, self.compressor.min_tokens
            return everything if sent_key or not tokens or tokens >= least else 0
        # One of two answers since then belongs to a prompt that another process sent.
        same = sent_key == last.sent_key and not place.rewound and place.answers <= 1
        return last.older if same else everything

    def _written(self, request: Request, call: SentCall, digest: bytes) -> Compression:
        """Return the messages of a call as they go out, with the account of them."""
        account = call.account
        assert account is not None  # noqa: S101 - a call that is made here has one
        messages = request.messages
        places: tuple[int, ...] = ()
        if call.rewrite is not None and call.sent_key:
            messages, places = call.rewrite.of(request.messages)
        elif call.key and not self.compressor.shadow:
            account = _as_it_came(account, Reason.NOT_WORTH_IT_YET)
        compression = replace(
            account,
            messages=messages,
            positions=places,
            state=call.state,
            digest=digest,
            request=request,
            parse=partial(_parsed, request, self.compressor.counting),
        )
        if self.compressor.shadow:
            compression = in_shadow(compression, request.messages)
        return remove_until(compression, call.older) if call.older else compression

    def _fits(self, request: Request, made: Made) -> bool:
        window = self._policy(request.model, None).sheet.window
        return window is None or made.account.tokens_before <= window


def _in_force(last: SentCall | None, made: Made) -> Made | None:
    """Return a decision with the edit in force, as later calls repeat it; None if there is none."""
    if last is None or last.rewrite is None or last.account is None:
        return None
    before, tokens = last.account, made.account.tokens_before
    account = replace(
        made.account,
        reason=before.reason,
        fallback_level=before.fallback_level,
        detail=before.detail or made.account.detail,
        last_edit=before.last_edit,
        thinking=before.thinking,
        tokens_after=tokens and tokens - before.tokens_before + before.tokens_after,
    )
    return made._replace(account=account, rewrite=last.rewrite.for_later(), is_checked=False)


def made_of(compressor: Compressor, request: Request, compression: Compression) -> Made:
    """Return a compressor's decision with everything that the next call needs."""
    rewrite = reading = None
    if compression.changed:
        rewrite = rewrite_of(request.messages, compression.messages, compression.positions)
    trajectory = compression.trajectory
    if trajectory is not None:
        reading = reading_of(
            request,
            trajectory,
            compression.owners,
            compressor.counting,
            lambda steps: compressor.kept(replace(trajectory, steps=tuple(steps)), plans=False),
            late_steps=max(2, compressor.k_recent) + 1,
        )
    return Made(_without_messages(compression), rewrite, reading)


def _parsed(request: Request, counter: TokenCounter) -> Trajectory:
    return parse(request, counter).trajectory


def _repeated(place: Place, made: Made) -> tuple[Habit, Repeats]:
    """Return the habit of a conversation with its new steps, and the repeats among these."""
    last, now = place.last, made.reading
    if last is None or last.account is None:
        return Habit(), NO_REPEATS
    if place.is_same:
        return last.habit, NO_REPEATS if last.answered else last.account.repeats
    if place.rewound or last.reading is None or now is None:
        return last.habit, NO_REPEATS
    shortened = {d.number for d in last.account.decisions if d.outcome == "elided"}
    before = len(last.reading.asked)
    return count_repeats(last.habit, now.asked, before, shortened if last.sent_key else set())


def _rewound(state: State, here: State) -> State:
    """Return the state of an edit for a conversation that was rewound to a smaller size."""
    edit = state.edit and state.edit._replace(steps=min(state.edit.steps, here.steps))
    return state._replace(
        edit=edit,
        is_new=False,
        steps=here.steps,
        prompt=here.prompt,
        beginning=here.beginning,
        last_paid=here.last_paid,
        last_whole=here.last_whole,
        cached=0,
    )


def _is_refused(request: Request, compression: Compression, call: SentCall) -> bool:
    """Return True if a provider would refuse the messages to send."""
    sent = replace(request, messages=compression.messages, edited_at=call.older)
    # The old messages of an edit were checked against the originals when it was made.
    before = request.messages if call.older else None
    return bool(broken_rules(sent, before=before))


def _as_it_came(account: Compression, reason: Reason) -> Compression:
    tokens = account.tokens_before
    whole = untouched(None, reason, format=account.format)
    return replace(whole, tokens_before=tokens, tokens_after=tokens)


def _is_credible(prompt: int, tokens: int) -> bool:
    """Return True if a provider's count may be of this prompt, and not of a part or a dummy."""
    return not tokens or tokens / _MOST_SCALE <= prompt <= tokens * _MOST_SCALE


def _without_messages(compression: Compression) -> Compression:
    return replace(
        compression,
        messages=None,
        positions=(),
        trajectory=None,
        owners=(),
        spans=(),
        observed=(),
        request=None,
        parse=None,
    )
