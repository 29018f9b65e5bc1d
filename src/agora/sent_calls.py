"""Calls as they were sent, found by the messages that they had, in bounded memory."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agora.compressor import Since
from agora.core.calls import Billed
from agora.core.compression import Compression
from agora.core.repeats import Habit
from agora.core.schedule import State
from agora.reading import Reading
from agora.rewrite import Rewrite

_CALL_BYTES = 1_000
"""About the bytes of a stored call without its edit and the sizes of its steps."""


class SentCall(NamedTuple):
    """How a call was sent, stored under a digest of its messages."""

    messages: int
    """How many it had."""
    state: State | None = None
    """The schedule's state after it."""
    beginning: int = 0
    """A digest of all that preceded its messages."""
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
    # The fields below are not saved.
    since: Since | None = None
    """The facts of its decision, so that the same messages are sent as the same bytes."""
    rewrite: Rewrite | None = None
    """The edit in force as it was written, for this call."""
    reading: Reading | None = None
    account: Compression | None = None
    """The compression without its messages."""
    answer: frozenset[bytes] = frozenset()
    """Marks that identify the answer."""
    ended: float | None = None
    """When the answer ended, by the session's clock."""
    usage: Billed | None = None
    habit: Habit = Habit()
    """How often the conversation has repeated calls that were whole."""
    parent: bytes = b""
    """The digest of the call that it continued."""
    edit_digest: bytes = b""
    """If it made the edit in force, the digest of the messages up to that edit."""
    serial: int = 0
    """Later calls have larger numbers."""

    def row(self) -> list[Any]:
        """Return the call as JSON, without any text."""
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


class SentCalls:
    """Calls by the digest of their messages, up to a number of bytes. Not safe for threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._calls: OrderedDict[bytes, SentCall] = OrderedDict()
        self._edits: dict[bytes, bytes] = {}
        """The digest of the messages up to an edit -> the call that made it."""
        self._users: Counter[bytes] = Counter()
        """How many calls share a written edit, by its key."""
        self._serial = 0
        self.bytes = 0

    def get(self, digest: bytes) -> SentCall | None:
        """Return a call."""
        return self._calls.get(digest)

    def put(self, digest: bytes, call: SentCall) -> None:
        """Store a call. The least recently used are forgotten."""
        self.drop(digest)
        self._serial += 1
        self._calls[digest] = call = call._replace(serial=self._serial)
        self.bytes += _weight(call)
        if call.rewrite is not None:
            self._users[call.rewrite.key] += 1
            if self._users[call.rewrite.key] == 1:
                self.bytes += call.rewrite.size
        parent = self._calls.get(call.parent) if call.answered else None
        if parent is not None and parent.edit_digest:
            # Only now: a call without a continuation does not belong to the conversation.
            self._edits[parent.edit_digest] = call.parent
        while self.bytes > self._most and len(self._calls) > 1:
            self.drop(next(iter(self._calls)))

    def find(
        self, digests: Sequence[bytes], acts: Callable[[int], bool]
    ) -> tuple[bytes, SentCall | None, bool]:
        """Return the digest of the call that a prompt continues, the call, and if it left a branch.

        `acts` returns True for a message of the agent. Such a message shows that the call before it
        was answered.
        """
        newest = len(digests) - 1
        name, call = b"", None
        for at in range(newest, -1, -1):
            stored = self._calls.get(digests[at])
            if stored is not None and (stored.answered or at == newest or acts(at + 1)):
                name, call = digests[at], stored
                self._calls.move_to_end(name)
                break
        for at in range(newest, -1, -1):
            branch = self._calls.get(self._edits.get(digests[at], b""))
            if branch is not None and self._left(branch, name, call):
                known, note = (at + 1, None) if call is None else (call.messages, call.note)
                # The provider's cache has the prompt up to that call.
                return name, branch._replace(messages=known, since=None, note=note), True
        return name, call, False

    def rows(self, most: int) -> list[list[Any]]:
        """Return the newest answered calls as rows, the oldest of them first."""
        rows: list[list[Any]] = []
        for digest, call in reversed(self._calls.items()):
            if call.answered and len(rows) < most:
                rows.append([digest.hex(), *call.row()])
        return rows[::-1]

    def _left(self, branch: SentCall, name: bytes, call: SentCall | None) -> bool:
        """Return True if a prompt that continues `call` left the branch on which an edit was made.

        Then that edit is newer than the call, and another continuation of the call made it.
        """
        if call is None:
            return True
        if branch.serial <= call.serial or branch.key == call.key or call.held:
            return False
        if branch.beginning != call.beginning:
            return False
        parent: SentCall | None = branch
        while parent is not None and parent.parent and parent.parent != name:
            parent = self._calls.get(parent.parent)
            if parent is not None and parent.messages < call.messages:
                return False
        return parent is not None and parent.parent == name

    def drop(self, digest: bytes) -> None:
        """Forget a call."""
        call = self._calls.pop(digest, None)
        if call is None:
            return
        self.bytes -= _weight(call)
        if self._edits.get(call.edit_digest) == digest:
            del self._edits[call.edit_digest]
        if call.rewrite is not None:
            key = call.rewrite.key
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self.bytes -= call.rewrite.size


def _weight(call: SentCall) -> int:
    sizes = call.reading.trajectory if call.reading else None
    return _CALL_BYTES + (24 * len(sizes.steps) + 8 * len(sizes.utterances) if sizes else 0)
