"""How each conversation was sent last, found by the content of its messages.

The whole interface is `find` and `put`. A state is stored under the digest of all messages of the
call that it belongs to; a lookup takes the longest stored prefix of the messages at hand. So
conversations that begin alike share states until they differ, and one that is rewound finds the
state of that moment. What is forgotten, or was never here, is an unknown past: it costs one write
of the whole prompt, and on models that bind thinking all older thinking.
"""

import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from agora.service.prompt import Edit

_STATE_BYTES = 400
"""About what a state takes without its edit."""


class Paid(NamedTuple):
    """The size of a conversation's last call, as the provider counted it."""

    prompt: float
    whole: float
    """What it would have counted had nothing ever been edited."""
    tokens: float
    """The whole prompt by our own count."""
    at: float
    """When the answer ended, by a monotonic clock."""
    grown: float = 0.0
    """By how many tokens prompts that continued the one before them grew, in all."""
    grown_by_us: float = 0.0
    """The same by our own count."""

    @property
    def scale(self) -> float:
        """The provider's tokens for each of ours, of text such as steps have; 0 if unknown."""
        return self.grown / self.grown_by_us if self.grown_by_us else 0.0


class State(NamedTuple):
    """How a call was sent."""

    edit: Edit | None = None
    """The edit in force."""
    dead: int = 0
    """How many of the client's first messages go without their thinking from here on."""
    held: bool = False
    """Whether a provider refused an edit of this conversation: then there is no other one."""
    paid: Paid | None = None

    def as_row(self, digest: bytes) -> list[Any]:
        """Return it as JSON, with the digest that it is remembered by and without any text."""
        edit = [self.edit.until, self.edit.key.hex()] if self.edit else None
        return [digest.hex(), edit, self.dead, self.held, self.paid]


def from_row(row: Sequence[Any]) -> tuple[bytes, State]:
    """Return the digest and the state in a row of `as_row`.

    Its edit has no pieces: it can be recognised when it is made again, and not be sent.
    """
    digest, edit, dead, held, paid = row
    known = Edit(edit[0], (), bytes.fromhex(edit[1])) if edit else None
    return bytes.fromhex(digest), State(known, dead, held, Paid(*paid) if paid else None)


class Memory:
    """States by digest, up to a number of bytes; the least recently used is forgotten first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._states: OrderedDict[bytes, State] = OrderedDict()
        self._edits: dict[bytes, Edit] = {}
        """By key: the states of many calls share one."""
        self._users: dict[bytes, int] = {}
        self._bytes = 0

    def find(self, digests: Sequence[bytes]) -> tuple[int, State] | None:
        """Return the state of the longest known prefix and how many messages that has."""
        for at in range(len(digests) - 1, -1, -1):
            state = self._states.get(digests[at])
            if state is not None:
                self._states.move_to_end(digests[at])
                return at + 1, state
        return None

    def put(self, digests: Sequence[bytes], state: State) -> None:
        """Remember how a call with these messages was sent, after the provider accepted it."""
        if not digests:
            return
        name = digests[-1]
        self._forget(name)
        self._bytes += _STATE_BYTES
        if state.edit is not None:
            key = state.edit.key
            if key not in self._edits or not self._edits[key].pieces:
                self._edits[key] = state.edit.for_later()
                self._bytes += _weight(self._edits[key])
            self._users[key] = self._users.get(key, 0) + 1
            state = state._replace(edit=self._edits[key])
        self._states[name] = state
        while self._bytes > self._most and len(self._states) > 1:
            self._forget(next(iter(self._states)))

    @property
    def used_bytes(self) -> int:
        """About how much memory it takes."""
        return self._bytes

    def _forget(self, name: bytes) -> None:
        state = self._states.pop(name, None)
        if state is None:
            return
        self._bytes -= _STATE_BYTES
        if state.edit is not None:
            key = state.edit.key
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self._bytes -= _weight(self._edits.pop(key))


def _weight(edit: Edit) -> int:
    return sum(120 + sys.getsizeof(piece.text) for piece in edit.pieces)
