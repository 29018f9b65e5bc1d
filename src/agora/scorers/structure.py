"""Structure that tells whether a step will be needed: names it alone brought, size, place, kind.

Everything is put into small whole numbers, so that an ensemble of small trees
can be read from tables. What was counted is kept for a while and counted on
when a trajectory comes back with more steps; what is returned never depends on
that. Training and serving share this module.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from agora.core.memo import Memo, Store
from agora.core.reading import READ_CHARACTERS
from agora.core.reading.counted import (
    first_names,
    kind_of_name,
    names_of,
    shape,
    tells_an_error,
    words_of,
)
from agora.core.reading.vocabulary import word_list
from agora.core.trajectory import Anchor, Step
from agora.scorers.atoms import act

VALUES = 16
"""A feature is a whole number from 0 to one less than this."""

FEATURES = (
    "only_ids",
    "only_codes",
    "only_numbers",
    "only_share",
    "only_share_of_all",
    "only_like_newest",
    "only_like_recent",
    "only_open",
    "only_density",
    "only_task_words",
    "used_later",
    "last_used_ago",
    "recent_use",
    "only_anchor_words",
    "with_anchor",
    "with_task",
    "same_call_later",
    "same_tool_later",
    "same_tool_as_newest",
    "first_of_tool",
    "error",
    "observation_size",
    "action_size",
    "ids",
    "kind",
    "place",
    "ago",
    "newest_kind",
)
"""The features in their order. Sizes and larger counts are in powers of two."""

_TOP = VALUES - 1
_PLACES = tuple(range(_TOP))
"""The places of the first steps; all later ones count as the same place."""
_MOST_NAMES = 256
_RECENT = 3
_FLOOR = 2
"""So many of the newest steps are kept in any case, as compressors do by default."""
_NO_NAMES = (0,) * 10
"""The features about the names that only the step brought, when there are none."""
_MOST_OF_ONE = 16
"""So many names of one step count in what all steps brought together."""
_MOST_WORDS = 32
"""Of the rare words of an anchor so many are looked for; more change next to nothing."""
_MOST_MISSING = 8
"""A tally is counted on when no more than so many steps less one were added."""
_ENTRY_CHARACTERS = 400
"""What an entry weighs on top of its texts."""
_NAME_CHARACTERS = 10
"""What a name in a tally weighs, in the unit of the other memos: about as much text as it fills."""
_NOTHING: frozenset[str] = frozenset()
_WORD = re.compile("[a-z]{3,40}")
_FIRST_WORD = re.compile("[a-z]{1,40}")
_KINDS: Mapping[str, int] = {
    word: kind
    for kind, listed in enumerate(("looks", "changes", "neither"), start=1)
    for word in word_list("kinds", listed)
}
"""What a word for an action does: looks (1), changes (2), neither (3). Others are 0."""
_MOST_SHAPE = 40


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text[:READ_CHARACTERS].lower()))


@lru_cache(maxsize=1024)
def _kind(tool: str) -> int:
    word = _FIRST_WORD.search(tool.lower())
    return _KINDS.get(word[0], 0) if word else 0


_task_words = Memo(_words, 500_000, name="task_words")


class _Seen:
    """What is read of a step, whatever stands around it."""

    __slots__ = (
        "action_names",
        "action_shapes",
        "brought",
        "call",
        "characters",
        "kind",
        "names",
        "own",
        "standing",
        "summary",
        "tool",
        "words",
    )

    def __init__(self, step: Step) -> None:
        done = _done(step)
        self.action_names = first_names(done, _MOST_NAMES)
        self.tool = _tool(step)
        self.kind = _kind(self.tool)
        self.call = "\n".join(_key(step)[:-1])
        self.action_shapes = {name: shape(name) for name in self.action_names}
        self.names = frozenset(first_names(step.observation, _MOST_NAMES))
        self.standing = self.names.union(self.action_names)
        """What is gone with the step."""
        self.brought = self.names.difference(self.action_names)
        """What came back without having been sent: an error repeats what was asked for."""
        self.words = words_of(step.observation)
        self.characters = len(step.observation)
        sizes = _power(self.characters), _power(len(done)), _POWERS[len(self.names)]
        self.own = (tells_an_error(step.observation), *sizes, self.kind)
        """Its features that depend on nothing else."""
        self.summary: _Summary | None = None
        """The last that was made: mostly the next one is the same."""


def _key(step: Step) -> tuple[str, ...]:
    """Return all texts that are read of a step. How many they are tells how many calls it has."""
    calls = step.calls
    if not calls:
        return step.action, step.observation
    if len(calls) == 1:
        return calls[0].name, calls[0].arguments, step.observation
    said = [text for call in calls for text in (call.name, call.arguments)]
    return *said, step.observation


class _Steps:
    """Reads steps and remembers them, as `core.memo` does for texts."""

    def __init__(self, most_characters: int) -> None:
        self._kept: Store[tuple[str, ...], _Seen] = Store(most_characters, name="structure_steps")

    def __call__(self, steps: Sequence[Step]) -> list[_Seen]:
        """Return what is read of each step."""
        keys = [
            (step.calls[0].name, step.calls[0].arguments, step.observation)
            if len(step.calls) == 1
            else _key(step)
            for step in steps
        ]
        found = [*map(self._kept.get, keys)]
        return [
            seen if seen is not None else self._read(key, step)
            for seen, key, step in zip(found, keys, steps, strict=True)
        ]

    def _read(self, key: tuple[str, ...], step: Step) -> _Seen:
        seen = _Seen(step)
        self._kept.put(key, seen, sum(map(len, key)) + _ENTRY_CHARACTERS)
        return seen


_steps = _Steps(8_000_000)


class _Use:
    """How later actions used what a step was the first to have."""

    __slots__ = ("count", "last", "shapes")

    def __init__(self) -> None:
        self.count = 0
        self.last = 0
        self.shapes: set[str] = set()


class _Tally:
    """Which names some steps have together, and where those were used."""

    __slots__ = ("alone", "first", "steps", "uses")

    def __init__(self) -> None:
        self.steps = 0
        self.first: dict[str, int] = {}
        """The place of the first step that has a name."""
        self.alone: set[str] = set()
        """The names that one step has and no other, in what it did or what came back."""
        self.uses: dict[int, _Use] = {}
        """By the place of the step that was used."""

    def add(self, step: _Seen) -> None:
        """Count one step more."""
        at, first = self.steps, self.first
        for name in step.action_names:
            by = first.get(name)
            if by is not None:
                use = self.uses.get(by)
                if use is None:
                    use = self.uses[by] = _Use()
                use.count += 1
                use.last = at
                use.shapes.add(step.action_shapes[name])
        alone = self.alone
        for name in step.standing:
            if name in first:
                alone.discard(name)
            else:
                first[name] = at
                alone.add(name)
        self.steps += 1


class _Tallies:
    """Tallies of trajectories that may come back with some steps more, in bounded memory.

    A tally is changed when steps are added. So it is taken out while it is in
    use, and whoever asks for it meanwhile counts again.
    """

    def __init__(self, most_names: int) -> None:
        self._kept: Store[tuple[_Seen, ...], _Tally] = Store(
            most_names * _NAME_CHARACTERS, name="structure_tallies"
        )

    def take(self, steps: tuple[_Seen, ...]) -> _Tally:
        """Return the tally of the steps, counted on from where it was kept if it was."""
        found: _Tally | None = None
        for missing in range(min(_MOST_MISSING, len(steps))):
            found = self._kept.take(steps[: len(steps) - missing])
            if found is not None:
                break
        tally = found or _Tally()
        for step in steps[tally.steps :]:
            tally.add(step)
        return tally

    def keep(self, steps: tuple[_Seen, ...], tally: _Tally) -> None:
        """Have the tally ready for the next time."""
        size = len(tally.first) + tally.steps
        self._kept.put(steps, tally, size * _NAME_CHARACTERS)


_tallies = _Tallies(200_000)


def features(anchor: Anchor, steps: Sequence[Step]) -> list[tuple[int, ...]]:
    """Return one row per step: the features in the order of `FEATURES`, each below `VALUES`.

    >>> step = Step(number=1, action="look", observation="key 7", tokens=2)
    >>> dict(zip(FEATURES, features(Anchor("find it", "key 7"), [step])[0], strict=True))["ids"]
    1
    """
    return list(zip(*columns(anchor, steps), strict=True))


def columns(anchor: Anchor, steps: Sequence[Step]) -> list[Sequence[int]]:
    """Return one column per feature, with a value for each step.

    All texts are remembered for a while, so a trajectory that comes back with
    one step more costs the reading of that step. Nothing here depends on the
    order of a set or on the process. By columns and not by rows because most
    values are zero, and the others can then be put in one by one.
    """
    if not steps:
        return [()] * len(FEATURES)
    total = len(steps)
    seen = _steps(steps)
    now, task = (
        frozenset(names_of(anchor.observation, _MOST_NAMES)),
        frozenset(names_of(anchor.task, _MOST_NAMES)),
    )
    key = tuple(seen)
    tally = _tallies.take(key)
    spoken = anchor.observation != steps[-1].observation
    words = words_of(anchor.observation) if spoken else seen[-1].words
    # What the user says now stands in the prompt whatever is elided.
    alone = tally.alone.difference(task, now if spoken else ())
    tools = [step.tool for step in seen]
    first_of_tool = [0] * total
    for tool in set(tools):
        first_of_tool[tools.index(tool)] = 1
    places = (*_PLACES[:total], *[_TOP] * (total - len(_PLACES)))
    found = [
        *_only(seen, alone, tally.uses, _task_words(anchor.task)),
        *_used(seen, tally),
        _telling(words, seen, spoken=spoken),
        _shared(seen, now),
        _shared(seen, task),
        *_later(seen),
        [1 if tool == tools[-1] else 0 for tool in tools],
        first_of_tool,
        *zip(*[step.own for step in seen], strict=True),
        places,
        [at + 1 if at < _TOP else _TOP for at in reversed(places)],
        [seen[-1].kind] * total,
    ]
    _tallies.keep(key, tally)
    return found


def _only(
    seen: Sequence[_Seen],
    alone: Set[str],
    uses: Mapping[int, _Use],
    asked: frozenset[str],
) -> list[tuple[int, ...]]:
    """Return the columns about the names that only the step brought."""
    rows = [_NO_NAMES] * len(seen)
    newest = set(seen[-1].action_shapes.values())
    recent = newest.union(*[step.action_shapes.values() for step in seen[-_RECENT:]])
    apart = alone.isdisjoint
    brought_by = {at: s.brought & alone for at, s in enumerate(seen) if not apart(s.brought)}
    # One step full of names must not make those of all others look few.
    of_all = sum([min(len(only), _MOST_OF_ONE) for only in brought_by.values()])
    for at, only in brought_by.items():
        step, use = seen[at], uses.get(at)
        summary = step.summary
        if summary is None or summary.asked is not asked or summary.names != only:
            summary = step.summary = _summary(step, only, asked)
        used = use.shapes if use is not None else _NOTHING
        like_recent = like_newest = still_open = 0
        for form, count in summary.shapes:
            if form in recent:
                like_recent += count
                if form in newest:
                    like_newest += count
            if form in used:
                still_open += count
        brought = len(only)
        rows[at] = (
            _POWERS[brought],
            summary.codes,
            summary.numbers,
            8 * brought // len(step.names),
            8 * min(brought, _MOST_OF_ONE) // of_all,
            _POWERS[like_newest],
            _POWERS[like_recent],
            _POWERS[still_open],
            summary.density,
            summary.of_task,
        )
    return list(zip(*rows, strict=True))


class _Summary(NamedTuple):
    """What the names that only one step brought come to."""

    names: frozenset[str]
    asked: frozenset[str]
    """The words of the task."""
    shapes: tuple[tuple[str, int], ...]
    codes: int
    numbers: int
    density: int
    of_task: int


def _summary(step: _Seen, only: frozenset[str], asked: frozenset[str]) -> _Summary:
    kinds = [*map(kind_of_name, only)]
    characters = sum(map(len, only))
    of_task = [not asked.isdisjoint(_WORD.findall(name.lower())) for name in only]
    return _Summary(
        names=only,
        asked=asked,
        shapes=tuple(Counter(map(shape, only)).items()),
        codes=_POWERS[kinds.count(0)],
        numbers=_POWERS[kinds.count(1)],
        density=min(30 * characters // (step.characters + 1), _TOP),
        of_task=_POWERS[sum(of_task)],
    )


def _shared(seen: Sequence[_Seen], names: frozenset[str]) -> list[int]:
    """Return how many of the names each step has."""
    apart = names.isdisjoint
    return [0 if apart(step.names) else _POWERS[len(names & step.names)] for step in seen]


def _telling(words: Iterable[str], seen: Sequence[_Seen], *, spoken: bool) -> list[int]:
    """Return how many words of the anchor each step has that outside the floor it alone has.

    Words that the rest of the floor has are left out first, which takes those
    away that every observation has; and of the others the longest are enough.
    """
    floor = seen[-_FLOOR:] if spoken else seen[-_FLOOR:-1]
    rare = set(words).difference(*[step.words for step in floor])
    if len(rare) > _MOST_WORDS:
        rare = set(sorted(sorted(rare), key=len, reverse=True)[:_MOST_WORDS])
    apart = rare.isdisjoint
    places = [at for at, step in enumerate(seen[:-_FLOOR]) if not apart(step.words)]
    shared = [rare.intersection(seen[at].words) for at in places]
    having = Counter(chain.from_iterable(shared))
    counts = [0] * len(seen)
    for at, found in zip(places, shared, strict=True):
        counts[at] = _POWERS[sum([having[word] == 1 for word in found])]
    return counts


def _used(seen: Sequence[_Seen], tally: _Tally) -> tuple[list[int], list[int], list[int]]:
    """Return per step how often it was used, how long ago, and how often of late."""
    total = len(seen)
    count, ago, of_late = [0] * total, [0] * total, [0] * total
    for at, use in tally.uses.items():
        count[at] = _power(use.count)
        ago[at] = min(total - use.last, _TOP)
    for at in range(max(0, total - _RECENT), total):
        for name in seen[at].action_names:
            by = tally.first[name]
            if by < at and of_late[by] < _RECENT:
                of_late[by] += 1
    return count, ago, of_late


def _later(seen: Sequence[_Seen]) -> tuple[list[int], list[int]]:
    """Return per step whether the same call comes again, and how often its tool does."""
    calls: set[str] = set()
    counts: dict[str, int] = {}
    calls_again, tools_again = [], []
    for step in reversed(seen):
        call, tool = step.call, step.tool
        calls_again.append(1 if call in calls else 0)
        calls.add(call)
        again = counts.get(tool, 0)
        counts[tool] = again + 1
        tools_again.append(again.bit_length())
    calls_again.reverse()
    tools_again.reverse()
    return calls_again, tools_again


def _done(step: Step) -> str:
    if not step.calls:
        return act(step)
    if len(step.calls) == 1:
        return step.calls[0].arguments
    return "\n".join([call.arguments for call in step.calls])


def _tool(step: Step) -> str:
    """Return what was called, or the first word of what was done."""
    if step.calls:
        return step.calls[0].name
    return act(step)[:_MOST_SHAPE].lstrip().partition(" ")[0]


def _power(count: int) -> int:
    """Return 0 for 0, 1 for 1, 2 for 2 and 3, 3 up to 7, and so on."""
    return min(count.bit_length(), _TOP)


_POWERS = tuple(_power(count) for count in range(_MOST_NAMES + 1))
