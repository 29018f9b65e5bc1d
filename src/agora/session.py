"""Conversations across their calls: states stored under what they followed, as a provider's cache.

    session = agora.Session()
    compression = session.compress(messages, model="claude-opus-5")
    answer = client.messages.create(model="claude-opus-5", messages=compression.messages)
    session.answered(compression, answer=answer, usage=answer.usage)

A state is found by the longest stored prefix of the messages at hand, compared by content. So
conversations that begin alike share states until they differ, and one that is rewound or forked
finds the state of that moment. A call that continues a known one reads only what is new, and
repeats the edit in force as it was written. A lost state costs one write of the whole prompt.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from agora.adapters import broken_rules, format_named, known_format
from agora.adapters.lifetimes import asked_ttl
from agora.adapters.objects import handed_back, plain
from agora.adapters.registry import thinking_signed
from agora.adapters.thoughts import thinks
from agora.adapters.usage import Usage, read_usage
from agora.bound_thinking import remove_until
from agora.compressor import Compressor, Since, later_decisions, sentence
from agora.core.compression import Compression, FallbackLevel, Reason, in_shadow, untouched
from agora.core.request import Observations, Request
from agora.core.schedule import Billed, State, advance, call_of, why_not
from agora.core.settings import step_numbers
from agora.core.trajectory import Step
from agora.reading import Reading, read_on, reading_of
from agora.rewrite import Rewrite, answer_marks, beginning_of, digests_of, rewrite_of
from agora.summaries import asks_for_summary

MOST_BYTES = 64 << 20
_CALL_BYTES = 1_000
"""About what a stored call takes without its edit and the sizes of its steps."""
_NEWEST = 8
"""Among so many of the newest messages is any mark that tells the lifetime of the cache."""
_LAST_MESSAGES = 4
"""How many messages may hold a request for a summary: system text can follow it."""


class SentCall(NamedTuple):
    """How a call was sent, stored under a digest of its messages."""

    messages: int
    """How many it had."""
    state: State | None = None
    """The schedule's state after it."""
    beginning: int = 0
    """A digest of what stood before its messages."""
    key: bytes = b""
    """The key of the edit in force; empty if there is none."""
    sent_key: bytes = b""
    """The key of the edit as it was sent; empty in shadow mode."""
    older: int = 0
    """How many of the caller's first messages go without their thinking from here on."""
    held: bool = False
    """True if a provider refused an edit of this conversation: it gets no other one."""
    note: Sequence[float] | None = None
    """Numbers that whoever calls the session wants to find at the next call."""
    answered: bool = False
    """True if the provider answered with success."""
    # What follows is not saved.
    since: Since | None = None
    """What it was decided by: the same messages again are sent as the same bytes."""
    rewrite: Rewrite | None = None
    """The edit in force as it was written, for this call."""
    reading: Reading | None = None
    account: Compression | None = None
    """What was done, without the messages."""
    answer: frozenset[bytes] = frozenset()
    """What the answer is known by."""
    ended: float | None = None
    """When the answer ended, by the session's clock."""
    usage: Billed | None = None
    parent: bytes = b""
    """The digest of the call that it continued."""
    edit_digest: bytes = b""
    """If it made the edit in force, the digest of the messages up to that edit."""
    serial: int = 0
    """Later calls have larger numbers."""

    def row(self) -> list[Any]:
        """Return it as JSON, without any text."""
        state = self.state.row() if self.state else None
        keys = [self.key.hex(), self.sent_key.hex()]
        note = list(self.note) if self.note is not None else None
        return [self.messages, state, self.beginning, *keys, self.older, self.held, note]

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> "SentCall":
        """Return the call of a row."""
        messages, state, beginning, key, sent_key, older, held, note = row
        keys = bytes.fromhex(key), bytes.fromhex(sent_key)
        known = State.from_row(state) if state else None
        return cls(messages, known, beginning, *keys, older, held, note, answered=True)


class Place(NamedTuple):
    """Where a request stands among the calls that are known."""

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
    """How many messages of the agent came since."""
    rewound: bool = False
    """True if it left the branch on which the edit in force was made."""

    @property
    def is_same(self) -> bool:
        """True if these very messages were sent before."""
        return self.last is not None and self.last.messages == len(self.digests)


class Made(NamedTuple):
    """What was decided on a request. It holds none of the caller's messages but by an edit."""

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
        self._calls = _Calls(most_bytes)
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
            UnknownFormatError: There is no format of the name given as `format`.
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
            return handed_back(self._send(request, pinned), request, messages)
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
            compression: What was sent.
            answer: The answer: its body, its messages, or an object of the SDK. Without it silence
                is not measured.
            usage: Its usage, as the provider reported it or as `Usage`.
            note: Numbers to find again in `SentCall.note` at the next call.
        """
        usage = usage if isinstance(usage, Usage) else read_usage(plain(usage))
        marks = answer_marks(compression.format, plain(answer))
        billed = usage and Billed(usage.uncached, usage.read, usage.written, usage.output)
        with self._lock:
            call = self._calls.get(compression.digest)
            if call is not None:
                ended = self._clock() if marks else None
                call = call._replace(answered=True, answer=marks, ended=ended, usage=billed)
                self._calls.put(compression.digest, call._replace(note=note))

    def refused(
        self, compression: Compression, *, about_thinking: bool = False
    ) -> Compression | None:
        """Return what to send once more after a provider refused a call, None if there is nothing.

        A refused edit is followed by the caller's own messages, and its conversation is not edited
        again. On a model that binds thinking all of it is taken out. If the refusal is
        `about_thinking`, the edit itself stays.
        """
        request = compression.request
        with self._lock:
            call = self._calls.get(compression.digest)
        if call is None or request is None or not (call.sent_key or about_thinking):
            return None
        older = len(request.messages) if _binds(request) else 0
        if not about_thinking:
            state = call.state and call.state._replace(edit=None, removed=0)
            account = untouched(None, Reason.REFUSED_BEFORE, format=request.format)
            tokens = compression.tokens_before
            account = replace(account, tokens_before=tokens, tokens_after=tokens, state=state)
            call = call._replace(
                state=state, key=b"", sent_key=b"", rewrite=None, held=True, account=account
            )
        elif not older:
            return None
        call = call._replace(older=older)
        with self._lock:
            self._calls.put(compression.digest, call)
        return self._written(request, call, compression.digest)

    def rows(self, most: int = 4_096) -> list[list[Any]]:
        """Return the newest answered calls as JSON: digests and numbers, no text."""
        with self._lock:
            return self._calls.rows(most)

    def load(self, rows: Iterable[Sequence[Any]]) -> None:
        """Continue from the rows of another process; one that cannot be read is left out."""
        with self._lock:
            for digest, *row in rows:
                with suppress(ValueError, TypeError):
                    self._calls.put(bytes.fromhex(digest), SentCall.of_row(row))

    @property
    def used_bytes(self) -> int:
        """About how much memory it takes."""
        return self._calls.bytes

    # The parts of a call, for a caller that decides in another process.

    def find(
        self, request: Request, pins: frozenset[int] = frozenset(), owner: str = ""
    ) -> Place:
        """Return where a request stands. Owners never share a state."""
        messages = request.messages
        if not isinstance(messages, list) or not messages:
            return Place(request, pins)
        try:
            digests = digests_of(messages, f"{owner} {request.format}")
            since = Since(beginning=beginning_of(request))
        except ValueError:
            return Place(request, pins)
        acts = format_named(request.format).acts
        with self._lock:
            parent, last, rewound = self._calls.find(
                digests, lambda at: isinstance(messages[at], dict) and acts(messages[at])
            )
        if last is None:
            return Place(request, pins, digests, since)
        new = messages[last.messages :]
        answers = sum(isinstance(message, dict) and acts(message) for message in new)
        if len(digests) == last.messages and last.since is not None:
            since = last.since
        else:
            idle = None
            if last.ended is not None and last.answer & answer_marks(request.format, new):
                idle = self._clock() - last.ended
            older = last.older if answers <= 1 and not rewound else None
            since = since._replace(
                state=last.state, idle_seconds=idle, usage=last.usage, older=older, held=last.held
            )
        return Place(request, pins, digests, since, last, parent, answers, rewound)

    def known(self, place: Place) -> Made | None:
        """Return what is decided without parsing the conversation; None if that takes a new edit.

        That is the edit in force, or none, with the new messages.
        """
        last = place.last
        if last is None or (last.key and last.rewrite is None):
            return None
        if place.is_same and last.account is not None:
            return Made(last.account, last.rewrite, last.reading)
        made = self._continued(place)
        return None if made is None or made.account.state is None else made

    def late(self, place: Place, reason: str, detail: str = "") -> Made:
        """Return the edit in force, whatever is due: what goes out if there is no time to edit."""
        made = self._continued(place, edits="never")
        if made is not None:
            account = replace(made.account, detail=detail or reason)
            return made._replace(account=account)
        account = untouched(None, Reason.LATE, format=place.request.format, detail=detail or reason)
        last = place.last
        if last is None:
            return Made(account)
        account = replace(account, state=last.state)
        rewrite = last.rewrite and last.rewrite.for_later()
        if rewrite is not None:
            account = replace(account, reason=Reason.COMPRESSED)
        return Made(account, rewrite, is_checked=False)

    def settle(self, place: Place, made: Made) -> Compression | None:
        """Return what goes out for a request, and store how it is sent.

        None if the provider would refuse it: then the conversation has to be parsed and decided on.
        """
        raise NotImplementedError
