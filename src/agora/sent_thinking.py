"""What became of the thinking in a conversation's last call, for as long as the process lives.

An edit is a function of the messages, so thinking made after it holds at every later call, from
whichever process. That is all that is needed while nothing goes wrong. When a call is sent
otherwise (the scorer fails, time runs out, shadow mode is switched), thinking made before the
change no longer stands behind what it was made behind. Only whoever sent the call before can know:
this is where it is remembered. What is forgotten costs at most one refusal, which is answered.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Literal, NamedTuple

_MOST = 16_384
_LOOK_BACK = 256
"""Thinking blocks looked at for one that is remembered; a call adds a few at a time."""


Unknown = Literal["trust", "give_up", "ask"]
"""What to do with the thinking of a conversation that is not remembered: trust that it was sent by
the same function; give all of it up; or ask the provider to drop what does not hold."""


class Verdict(NamedTuple):
    """What of a conversation's thinking no longer holds."""

    dead: int = 0
    """The newest block that does not, with all before it; 0 if all hold."""
    asks: bool = False
    """Whether the provider is asked to drop what does not hold: once done, to be done at every
    later call."""


class _Sent(NamedTuple):
    """How the call was sent whose newest thinking block this is kept under."""

    edit: Hashable
    verdict: Verdict


class SentThinking:
    """Tells which thinking no longer holds. Safe to call from threads; bounded."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._sent: OrderedDict[int, _Sent] = OrderedDict()
        self._lock = threading.Lock()

    def look(
        self,
        marks: Iterable[int],
        edit: Hashable,
        *,
        who: str = "",
        begun: int = 0,
        unknown: Unknown = "trust",
    ) -> Verdict:
        """Return what no longer holds now that `edit` is sent, and remember that it is.

        Args:
            marks: the thinking blocks of the caller's own messages as `mark` makes them, newest
                first.
            edit: what tells this edit from others; the same for a call that goes on with it.
            who: whose conversation it is. Nobody is told of another's.
            begun: what the conversation is known by before its first thinking block; 0 if nothing.
            unknown: what to do where nothing is remembered.

        """
        seen = list(islice(marks, _LOOK_BACK))
        newest = seen[0] if seen else 0
        names = [hash((who, one)) for one in (*seen, begun) if one]
        if not names:
            return Verdict()
        with self._lock:
            place = next((one for one in names if one in self._sent), None)
            before = None if place is None else self._sent.pop(place)
            if before is not None:
                same = before.edit == edit
                verdict = before.verdict if same else Verdict(newest, before.verdict.asks)
            elif newest:
                verdict = Verdict(newest if unknown == "give_up" else 0, unknown == "ask")
            else:
                verdict = Verdict()
            self._put(names[0], _Sent(edit, verdict))
        return verdict

    def refused(self, marks: Iterable[int], edit: Hashable, *, who: str = "") -> None:
        """Note that a provider refused this thinking: all of it is given up from here on."""
        newest = next(iter(marks), 0)
        if newest:
            with self._lock:
                self._put(hash((who, newest)), _Sent(edit, Verdict(newest)))

    def _put(self, place: int, sent: _Sent) -> None:
        self._sent[place] = sent
        self._sent.move_to_end(place)
        while len(self._sent) > self._most:
            self._sent.popitem(last=False)


def mark(signature: str | bytes) -> int:
    """Return what a thinking block is known by here; never 0.

    >>> mark("c2ln") == mark(b"c2ln")
    True
    """
    text = signature.encode("utf-8", "surrogatepass") if isinstance(signature, str) else signature
    return hash(text) or 1
