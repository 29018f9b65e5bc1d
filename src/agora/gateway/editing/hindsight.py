"""What the calls after an edit say about it: whether something that was elided was used.

No text is kept: names and actions are remembered as 64-bit hashes under the process's own key.
"""

import re
import secrets
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from sys import intern
from typing import NamedTuple

from agora.core.compression import Compression
from agora.core.reading.actions import done_by, used_by
from agora.core.reading.names import names_in
from agora.core.renditions.rendition import Rendition
from agora.core.trajectory import Step

SECRET = secrets.token_bytes(16)
"""Keys the hashes of this process. Not `hash`: an edit may be worked out in another process, whose
`hash` is keyed otherwise."""
_MOST_NAMES = 20_000
_TOOL = re.compile(r"[A-Za-z][\w.-]{0,63}", re.ASCII)
_READ_CHARACTERS = 8_192
"""Of an observation, from each end: it is read where other requests wait."""


class Looked(NamedTuple):
    """How many steps came after an edit, and what they say about it."""

    steps: int = 0
    used: int = 0
    """Of these, how many use a name that only elided steps have."""
    again: int = 0
    """How many do again, word for word, what an elided step did."""
    asked: tuple[str, ...] = ()
    """Of each of these, the form that the elided step was left in, and its tool."""
    elided: tuple[str, ...] = ()
    """The same of each step that was elided since."""


_SHOWN = ("elided", "epoch", "steps")


class Hindsight:
    """One edit of a conversation, and the steps that came after it.

    A name counts as elided if an elided observation brought it and it stands nowhere else: not in
    the preamble, in what was said, in a step that stays, or in the line of an elided one. That is
    what `agora replay` asks of recorded conversations, asked while they happen.
    """

    __slots__ = ("_done", "_gone", "_kinds", "_left", "_looked", "_secret", *_SHOWN)

    def __init__(self, compression: Compression, *, names: bool, secret: bytes = SECRET) -> None:
        """Take in an edit; without `names` only repeated actions are looked for."""
        trajectory = compression.trajectory
        steps = trajectory.steps if trajectory is not None else ()
        elided = {d.number: d.rendition for d in compression.decisions if d.rendition}
        self.elided = tuple(sorted(elided))
        self.epoch = compression.epoch
        self.steps = len(steps)
        """How many steps have been looked at."""
        kinds = {n: _kind(steps[n - 1], rendition) for n, rendition in elided.items()}
        done = {_hash(done_by(steps[n - 1]), secret): kinds[n] for n in self.elided}
        self._done = array("q", sorted(done))
        self._kinds = tuple(done[each] for each in self._done)
        self._gone = _gone(compression, elided, secret) if names else array("q")
        self._left = tuple(kinds[number] for number in self.elided)
        self._looked = Looked(elided=self._left)
        self._secret = secret

    @property
    def weight(self) -> int:
        """About how many bytes it keeps alive."""
        return 8 * (len(self._gone) + 2 * len(self._done) + 2 * len(self.elided))

    def look(self, new: Sequence[Step]) -> None:
        """Take in the steps that came since the last look."""
        steps, used, again, asked, elided = self._looked
        for step in new:
            uses = used_by(step)
            used += any(self._has(self._gone, name) for name in uses)
            at = self._place(self._done, done_by(step))
            if at is not None:
                again += 1
                asked += (self._kinds[at],)
            self._came_back(uses)
            self._came_back(names_in(step.observation, characters=_READ_CHARACTERS))
        self.steps += len(new)
        self._looked = Looked(steps + len(new), used, again, asked, elided)

    def take(self) -> Looked:
        """Return what was found since this was last asked."""
        looked, self._looked = self._looked, Looked()
        return looked

    def after(self, last: "Hindsight | None") -> "Hindsight":
        """Take over what nobody has asked the edit before this one for."""
        if last is not None:
            before, found = set(last.elided), last.take()
            left = zip(self.elided, self._left, strict=True)
            new = tuple(kind for number, kind in left if number not in before)
            self._looked = found._replace(elided=found.elided + new)
        return self

    def _has(self, hashes: "array[int]", value: object) -> bool:
        return self._place(hashes, value) is not None

    def _place(self, hashes: "array[int]", value: object) -> int | None:
        if not hashes:
            return None
        wanted = _hash(value, self._secret)
        at = bisect_left(hashes, wanted)
        return at if at < len(hashes) and hashes[at] == wanted else None

    def _came_back(self, names: Iterable[str]) -> None:
        """Forget names that now stand in a step that stays."""
        if not self._gone:
            return
        back = {_hash(name, self._secret) for name in names if self._has(self._gone, name)}
        if back:
            self._gone = array("q", (name for name in self._gone if name not in back))


def _hash(value: object, secret: bytes) -> int:
    found = blake2b(repr(value).encode(), digest_size=8, key=secret)
    return int.from_bytes(found.digest(), "big", signed=True)


def _kind(step: Step, rendition: Rendition) -> str:
    """Return the form that an elided step is left in, and its tool; one text for all of a kind."""
    name = step.calls[0].name if step.calls else "text"
    return intern(f"{rendition.form} {name if _TOOL.fullmatch(name) else 'other'}")


def _gone(compression: Compression, elided: Mapping[int, Rendition], secret: bytes) -> "array[int]":
    """Return the hashes of the names that only elided steps have, in order."""
    trajectory = compression.trajectory
    if trajectory is None:
        return array("q")
    brought: set[str] = set()
    stays = set(names_in(trajectory.preamble))
    for utterance in trajectory.utterances:
        stays.update(names_in(utterance.text))
    for step in trajectory.steps:
        uses, observed = used_by(step), names_in(step.observation)
        rendition = elided.get(step.number)
        if rendition is None:
            stays.update(uses, observed)
            continue
        if rendition.in_place:
            stays.update(uses)
        brought.update(name for name in observed if name not in uses)
    written = f" {' '.join(rendition.text for rendition in elided.values())} "
    gone = (name for name in brought - stays if f" {name} " not in written)
    return array("q", sorted(_hash(name, secret) for name in gone)[:_MOST_NAMES])


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers in a short form, for a line in the log.

    >>> ranges([2, 3, 4, 7])
    '2-4,7'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
