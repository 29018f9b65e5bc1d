"""What tells whether the action or the observation of a step will be needed before the next edit.

Everything is put into small whole numbers, as in `structure.py`, so that an ensemble of small
trees can be read from tables. What is read of a step is remembered; what is counted over all steps
is counted anew at each edit, with operations on whole sets. Training and serving share this module.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from agora.core.memo import Store
from agora.core.past import Past
from agora.core.reading.counted import (
    first_names,
    kind_of_name,
    names_of,
    shape,
    tells_an_error,
    words_of,
)
from agora.core.reading.observation import MOST_NAMES, observe
from agora.core.reading.vocabulary import word_list, word_set
from agora.core.trajectory import Step
from agora.scorers.atoms import act

VALUES = 16
"""A feature is a whole number from 0 to one less than this."""

FEATURES = (
    # What kind of agent it is: the same for every step.
    "agent",
    "json_observations",
    "usual_observation_size",
    "usual_action_size",
    "steps",
    "newest_verb",
    # The step by itself.
    "observation_size",
    "action_size",
    "observation_names",
    "action_names",
    "error",
    "verb",
    "files",
    # Where it stands.
    "ago",
    "place",
    "size_since",
    "first_of_tool",
    # Names that nothing newer has, and names that nothing else has.
    "fresh_observation",
    "only_observation",
    "only_share",
    "only_share_of_all",
    "only_codes",
    "only_numbers",
    "only_like_newest",
    "only_like_recent",
    "only_open",
    "fresh_action",
    "only_action",
    # What later actions made of it.
    "observation_used",
    "action_used",
    "call_again",
    "tool_again",
    "file_touched",
    "file_seen_again",
    "anchor_words",
)
"""The features in their order. Sizes and larger counts are in powers of two."""

_TOP = VALUES - 1
_PLACES = tuple(range(_TOP))
"""The places of the first steps; all later ones count as the same place."""
_RECENT = 3
_MOST_OF_ONE = 16
"""So many names of one step count in what all steps brought together."""
_MOST_WORDS = 32
"""Of the rare words of an anchor so many are looked for."""
_ENTRY_CHARACTERS = 600
"""What an entry weighs on top of its texts."""
_MOST_COMMAND = 400
"""How much of a command is read for what kind it is."""
_MOST_FILES = 8
_MOST_STANDING = 256
"""The same of a text that stays in the prompt."""
_NOTHING: frozenset[str] = frozenset()
_NO_NAMES = (0,) * 8
"""The features about the names that only an observation has, when there are none."""

_LOOK, _CHANGE, _NEITHER, _SEARCH, _RUN, _KEEP = 1, 2, 3, 4, 5, 6
_LOOKING = (_LOOK, _SEARCH)
_VERBS: Mapping[str, int] = {
    word: verb
    for verb, listed in {
        _LOOK: "look",
        _CHANGE: "change",
        _NEITHER: "neither",
        _SEARCH: "search",
        _RUN: "run",
        _KEEP: "keep",
    }.items()
    for word in word_list("verbs", listed)
}
"""What a word for an action does. Others are 0."""
_WORD = re.compile("[a-z]{1,40}[0-9]?")
_WRITES = re.compile(r"\s-i\b|[^0-9&]>{1,2}\s*[\w./~-]|<<")
_SET_UP = word_set("verbs", "set_up")
_APART = re.compile(r"&&|\|\||[;|\n]")
_FAILED = re.compile(r"returncode>\s*[1-9]|exit code:? [1-9]|exit_code\W{1,4}[1-9]")
_FAILED_CHARACTERS = 300


def _power(count: int) -> int:
    """Return 0 for 0, 1 for 1, 2 for 2 and 3, 3 up to 7, and so on."""
    return min(count.bit_length(), _TOP)


_POWERS = tuple(_power(count) for count in range(1025))
"""For what is bounded: a part has at most twice `MOST_NAMES` names."""


def _ago(count: int) -> int:
    """Return a distance in steps: single steps first, then twice as far at every second value.

    >>> [_ago(n) for n in (0, 1, 6, 7, 11, 12, 16, 24, 32, 48, 64, 96, 128, 1000)]
    [0, 1, 6, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15]
    """
    if count <= 6:
        return count
    bits = count.bit_length()
    # 8, 12, 16, 24, 32, ... are where the next value begins.
    half = count >> (bits - 2) & 1
    return max(6, min(2 * bits - 1 + half, _TOP))


_AGOS = tuple(_ago(count) for count in range(128))


class _Only(NamedTuple):
    """What the names that only one observation has come to."""

    names: frozenset[str]
    shapes: Mapping[str, int]
    codes: int
    numbers: int


class _Seen:
    """What is read of a step, whatever stands around it."""

    __slots__ = (
        "calls",
        "command",
        "done",
        "done_shapes",
        "files",
        "json",
        "names",
        "only",
        "own",
        "said",
        "shell",
        "size",
        "sizes",
        "tool",
        "verb",
        "words",
    )

    def __init__(self, step: Step) -> None:
        command = _command(step)
        seen = observe(step.observation)
        self.names = seen.names
        """The names in its observation."""
        self.words = seen.words
        """The words in its observation."""
        self.calls = bool(step.calls)
        self.shell = not step.calls and "```" in step.action
        self.tool = step.calls[0].name if step.calls else _first_word(command)
        self.verb = verb_of(self.tool, command if not step.calls else "")
        self.command = f"{self.tool}\n{command}"
        self.done = first_names(command, MOST_NAMES)
        self.done_shapes = tuple(map(shape, self.done))
        self.said = frozenset(first_names(step.action, MOST_NAMES)).union(self.done)
        """The names that stand in the action part."""
        self.files = tuple(dict.fromkeys(map(_base, filter(_is_file, self.done))))[:_MOST_FILES]
        self.json = step.observation[:1] in ("{", "[")
        self.sizes = len(step.action) + len(step.thought), len(step.observation)
        self.size = sum(self.sizes)
        failed = tells_an_error(step.observation) or _FAILED.search(
            step.observation[:_FAILED_CHARACTERS]
        )
        self.own = (
            _power(self.sizes[1]),
            _power(self.sizes[0]),
            _POWERS[len(self.names)],
            _POWERS[len(self.said)],
            1 if failed else 0,
            self.verb,
            len(self.files),
        )
        """Its features that depend on nothing else."""
        self.only: _Only | None = None
        """The last that was made: mostly the next one is the same."""


def _command(step: Step) -> str:
    """Return what was done, without what was thought along with it."""
    if not step.calls:
        return act(step)
    if len(step.calls) == 1:
        return step.calls[0].arguments
    return "\n".join([call.arguments for call in step.calls])


def _first_word(command: str) -> str:
    """Return the first word of a command, behind what only sets the place for it.

    >>> _first_word("cd /testbed && FOO=1 grep -n x y.py"), _first_word("go to shelf 1")
    ('grep', 'go')
    """
    words: list[str] = []
    for part in _APART.split(command[:_MOST_COMMAND]):
        words = [word for word in part.split() if "=" not in word]
        if words and words[0] not in _SET_UP:
            break
    return words[0] if words else ""


@lru_cache(maxsize=4096)
def _named_verb(tool: str) -> int:
    for word in _WORD.findall(tool.replace("_", " ").lower()):
        verb = _VERBS.get(word)
        if verb is not None:
            return verb
    return 0


def verb_of(tool: str, command: str = "") -> int:
    """Return what kind of action it is, by the name of its tool and what its command writes.

    >>> verb_of("get_user_details"), verb_of("sed", "sed -n 1,9p a"), verb_of("sed", "sed -i 1d a")
    (1, 1, 2)
    """
    verb = _named_verb(tool[:40])
    if command and verb in (_LOOK, _RUN, 0) and _WRITES.search(command[:_MOST_COMMAND]):
        return _CHANGE
    return verb


def _is_file(name: str) -> bool:
    return "/" in name or ("." in name and name.rpartition(".")[2].isalpha())


def _base(path: str) -> str:
    """Return the last part of a path: the same file is named from here and from the root."""
    return path.rstrip("/").rpartition("/")[2]


class _Steps:
    """Reads steps and remembers them, as `core.memo` does for texts."""

    def __init__(self, most_characters: int) -> None:
        self._kept: Store[tuple[str, ...], _Seen] = Store(most_characters, name="part_steps")

    def __call__(self, steps: Sequence[Step]) -> list[_Seen]:
        """Return what is read of each step."""
        return [self._read(step) for step in steps]

    def _read(self, step: Step) -> _Seen:
        key: tuple[str, ...] = (step.action, step.observation, step.thought)
        if step.calls:
            key = (*key, *[text for call in step.calls for text in (call.name, call.arguments)])
        seen = self._kept.get(key)
        if seen is None:
            seen = _Seen(step)
            self._kept.put(key, seen, sum(map(len, key)) + _ENTRY_CHARACTERS)
        return seen


_steps = _Steps(8_000_000)


def columns(past: Past, held: Collection[int]) -> list[Sequence[int]]:
    """Return one column per feature, with a value for each step, in the order of `FEATURES`.

    Nothing here depends on the order of a set, on the process or on what was asked before.
    """
    if not past.steps:
        return [()] * len(FEATURES)
    total = len(past.steps)
    seen = _steps(past.steps)
    places = [at for at, step in enumerate(past.steps) if step.number not in held]
    spoken = past.anchor.observation != past.steps[-1].observation
    words = words_of(past.anchor.observation) if spoken else seen[-1].words
    standing = _standing(past, seen, places)
    acted = _Acted(seen)
    tools = [step.tool for step in seen]
    first_of_tool = [0] * total
    for tool in set(tools):
        first_of_tool[tools.index(tool)] = 1
    return [
        *([value] * total for value in _agent(seen)),
        *zip(*[step.own for step in seen], strict=True),
        [_AGOS[ago] if ago < len(_AGOS) else _TOP for ago in range(total, 0, -1)],
        (*_PLACES[:total], *[_TOP] * (total - len(_PLACES))),
        _sizes_since(seen),
        first_of_tool,
        *_names(seen, places, standing, acted),
        acted.observations,
        acted.actions,
        *_again(seen),
        *_files(seen),
        _telling(words, seen, places, spoken=spoken),
    ]


def _agent(seen: Sequence[_Seen]) -> tuple[int, ...]:
    """Return the marks of the kind of agent, which are the same for every step."""
    total = len(seen)
    calls = sum([step.calls for step in seen])
    json = sum([step.json for step in seen])
    shell = sum([step.shell for step in seen])
    by_calls, by_shell = 2 * calls > total, 2 * shell > total
    kind = 2 + (2 * json <= total) if by_calls else int(by_shell)
    return (
        kind,
        4 * json // total,
        _power(sum([step.sizes[1] for step in seen]) // total),
        _power(sum([step.sizes[0] for step in seen]) // total),
        _power(total),
        seen[-1].verb,
    )


def _sizes_since(seen: Sequence[_Seen]) -> list[int]:
    """Return how much text came after each step, in powers of two of 64 characters."""
    since = [0, *accumulate([step.size for step in reversed(seen[1:])])]
    return [_power(size >> 6) for size in reversed(since)]


def _standing(past: Past, seen: Sequence[_Seen], places: Sequence[int]) -> set[str]:
    """Return the names that stay in the prompt whatever is left out of it."""
    outside = set(places)
    held = [step for at, step in enumerate(seen) if at not in outside]
    return set(names_of(past.preamble, _MOST_STANDING)).union(
        *[names_of(said.text, _MOST_STANDING) for said in past.said],
        *[step.said for step in held],
        *[step.names for step in held],
    )


class _Acted:
    """Which parts of earlier steps actions used, by the first part that had a name."""

    __slots__ = ("actions", "observations", "shapes")

    def __init__(self, seen: Sequence[_Seen]) -> None:
        names: set[str] = set().union(*[step.done for step in seen])
        total = len(seen)
        self.observations = [0] * total
        """How often later actions used a name that the step's observation was the first to have."""
        self.actions = [0] * total
        """The same for names that its action was the first to have."""
        self.shapes: dict[int, set[str]] = {}
        """By the place of a step: how the names were built that were used of its observation."""
        first: dict[str, int] = {}
        # Places of actions are below 0, those of observations are not.
        for at, step in enumerate(seen):
            for by, form in zip(map(first.get, step.done), step.done_shapes, strict=True):
                if by is None:
                    continue
                if by < 0:
                    self.actions[~by] += 1
                else:
                    self.observations[by] += 1
                    self.shapes.setdefault(by, set()).add(form)
            first |= dict.fromkeys((step.said & names).difference(first), ~at)
            first |= dict.fromkeys((step.names & names).difference(first), at)
        self.observations = [*map(_power, self.observations)]
        self.actions = [*map(_power, self.actions)]


def _names(
    seen: Sequence[_Seen],
    places: Sequence[int],
    standing: Set[str],
    acted: _Acted,
) -> list[Sequence[int]]:
    """Return the columns about names that nothing newer has, and that nothing else has."""
    total = len(seen)
    newer, repeated = set(standing), set[str]()
    fresh, fresh_action, only_action = [0] * total, [0] * total, [0] * total
    in_actions: dict[int, frozenset[str]] = {}
    in_observations: dict[int, frozenset[str]] = {}
    for at in reversed(places):
        # The action first: what both parts have, it has for fewer tokens.
        for names, found in (
            (seen[at].said, in_actions),
            (seen[at].names, in_observations),
        ):
            if names:
                brought = names - newer
                if len(brought) < len(names):
                    repeated |= names - brought
                if brought:
                    newer |= brought
                    found[at] = brought
    for at, brought in in_actions.items():
        fresh_action[at] = _POWERS[len(brought)]
        only_action[at] = _POWERS[len(brought - repeated)]
    alone: dict[int, frozenset[str]] = {}
    for at, brought in in_observations.items():
        fresh[at] = _POWERS[len(brought)]
        only = brought - repeated
        if only:
            alone[at] = only
    return [fresh, *_only(seen, alone, acted), fresh_action, only_action]


def _only(
    seen: Sequence[_Seen],
    alone: Mapping[int, frozenset[str]],
    acted: _Acted,
) -> list[tuple[int, ...]]:
    """Return the columns about the names that only an observation has."""
    rows = [_NO_NAMES] * len(seen)
    newest = set(seen[-1].done_shapes)
    recent = newest.union(*[step.done_shapes for step in seen[-_RECENT:]])
    # One step full of names must not make those of all others look few.
    of_all = sum([min(len(only), _MOST_OF_ONE) for only in alone.values()])
    for at, only in alone.items():
        step = seen[at]
        summary = step.only
        if summary is None or summary.names != only:
            summary = step.only = _summary(only)
        shapes = summary.shapes
        like_recent = shapes.keys() & recent
        used = acted.shapes.get(at, _NOTHING)
        rows[at] = (
            _POWERS[len(only)],
            8 * len(only) // len(step.names),
            min(16 * min(len(only), _MOST_OF_ONE) // of_all, _TOP),
            summary.codes,
            summary.numbers,
            _POWERS[sum([shapes[form] for form in like_recent & newest])] if like_recent else 0,
            _POWERS[sum([shapes[form] for form in like_recent])] if like_recent else 0,
            _POWERS[sum([shapes[form] for form in shapes.keys() & used])] if used else 0,
        )
    return list(zip(*rows, strict=True))


def _summary(only: frozenset[str]) -> _Only:
    kinds = [*map(kind_of_name, only)]
    return _Only(
        names=only,
        shapes=Counter(map(shape, only)),
        codes=_POWERS[kinds.count(0)],
        numbers=_POWERS[kinds.count(1)],
    )


def _again(seen: Sequence[_Seen]) -> list[list[int]]:
    """Return per step whether its call comes again, and how often its tool does."""
    after: set[str] = set()
    calls_again, tools_again = [], []
    counts: dict[str, int] = {}
    for step in reversed(seen):
        calls_again.append(1 if step.command in after else 0)
        after.add(step.command)
        again = counts.get(step.tool, 0)
        counts[step.tool] = again + 1
        tools_again.append(_power(again))
    calls_again.reverse()
    tools_again.reverse()
    return [calls_again, tools_again]


def _files(seen: Sequence[_Seen]) -> list[list[int]]:
    """Return per step how often later actions name its files, and whether they look at them."""
    touched_later, seen_again = [0] * len(seen), [0] * len(seen)
    touched: dict[str, int] = {}
    looked: set[str] = set()
    for at in range(len(seen) - 1, -1, -1):
        files = seen[at].files
        if not files:
            continue
        touched_later[at] = _power(max([touched.get(file, 0) for file in files]))
        seen_again[at] = 0 if looked.isdisjoint(files) else 1
        for file in files:
            touched[file] = touched.get(file, 0) + 1
        if seen[at].verb in _LOOKING:
            looked.update(files)
    return [touched_later, seen_again]


def _telling(
    words: Iterable[str], seen: Sequence[_Seen], places: Sequence[int], *, spoken: bool
) -> list[int]:
    """Return how many words of the anchor each step has that outside the floor it alone has.

    Words that the rest of the floor has are left out first, which takes those away that every
    observation has; and of the others the longest are enough.
    """
    outside = set(places)
    floor = [step for at, step in enumerate(seen) if at not in outside]
    rare = set(words).difference(*[step.words for step in (floor if spoken else floor[:-1])])
    if len(rare) > _MOST_WORDS:
        rare = set(sorted(sorted(rare), key=len, reverse=True)[:_MOST_WORDS])
    shared = {at: rare.intersection(seen[at].words) for at in places}
    having = Counter([word for found in shared.values() for word in found])
    counts = [0] * len(seen)
    for at, found in shared.items():
        if found:
            counts[at] = _POWERS[sum([having[word] == 1 for word in found])]
    return counts
