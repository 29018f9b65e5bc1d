"""What stands where steps were elided: markers, and the skeletons listed in them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agora.core.identifiers import identifiers, listed, weight
from agora.core.memo import Memo
from agora.core.recall import TOOL_NAME
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step

_ACTION_IDENTIFIERS = 4
"""How many names of an action a skeleton repeats: enough to tell two calls of a tool apart."""
_LINE_TOKENS = 3
"""What a line costs besides its words: its number, the arrow, the newline."""
_READ_CHARACTERS = 32_768
"""How much of each end of a very long text is read: names there are worth no seconds."""


class Markers(Protocol):
    """Writes the text that stands where steps were elided."""

    def run(self, steps: Sequence[tuple[int, str]]) -> str:
        """Return the marker of a run of removed steps, given as (number, skeleton line)."""
        ...

    def mask(self, number: int, line: str) -> str:
        """Return what stands for a result of a step that was masked in place."""
        ...


@dataclass(frozen=True, slots=True)
class SkeletonMarkers:
    """The default markers: which steps were elided, and a line for what each of them brought.

    They look like no call, no role and no instruction, because a backbone
    imitates what it sees.

    >>> print(SkeletonMarkers().run([(3, "get_flight HAT136 -> 2024-05-20"), (4, "")]))
    [steps 3-4 elided]
    3 get_flight HAT136 -> 2024-05-20
    """

    recall: bool = False
    """Whether the recall tool is offered: only then do markers mention it."""

    def run(self, steps: Sequence[tuple[int, str]]) -> str:
        """Return the marker of a run of removed steps."""
        first, last = steps[0][0], steps[-1][0]
        which = f"step {first}" if first == last else f"steps {first}-{last}"
        lines = [f"{number} {line}" for number, line in steps if line]
        return "\n".join([f"[{which} elided{self._hint()}]", *lines])

    def mask(self, number: int, line: str) -> str:
        """Return what stands for a result of a masked step: what it brought, not what it did."""
        brought = f" {line}".partition(_ARROW)[2]
        head = f"[step {number} elided{self._hint()}]"
        return f"{head} {brought}" if brought else head

    def _hint(self) -> str:
        return f"; {TOOL_NAME} shows one by its number" if self.recall else ""


@dataclass(frozen=True, slots=True)
class PaperMarkers:
    """The paper's bare wording.

    >>> PaperMarkers().run([(3, ""), (4, "")])
    '[... 2 step(s) elided ...]'
    """

    def run(self, steps: Sequence[tuple[int, str]]) -> str:
        """Return the marker of a run of removed steps."""
        return f"[... {len(steps)} step(s) elided ...]"

    def mask(self, number: int, line: str) -> str:  # noqa: ARG002
        """Return what stands for a result of a masked step."""
        return "[... 1 step(s) elided ...]"


_ARROW = " -> "


@dataclass(frozen=True, slots=True)
class Elided:
    """A step to be elided, with its score: what is worth more gets its line first."""

    step: Step
    score: float


def skeletons(
    elided: Sequence[Elided], *, present: Iterable[str], room: int, counter: TokenCounter
) -> Mapping[int, str]:
    """Return one line per elided step, as many and as long as fit in `room` tokens.

    A line has the action in short and the identifiers that the step brought
    and that stand nowhere else: not in `present`, the texts that stay, and not
    in an earlier line. Every identifier is copied from its step. The ones
    that actions are most often made of come first (`identifiers.weight`).

    >>> from agora.core.tokens import Characters
    >>> step = Step(number=3, action="open box 1", observation="In it: key 7.", tokens=9)
    >>> skeletons([Elided(step, 0.5)], present=[], room=99, counter=Characters())
    {3: 'box 1 -> key 7'}
    """
    known = _identifiers_of(present)
    heads = [_action(item.step) for item in elided]
    brought = [_brought(item.step, head, known) for item, head in zip(elided, heads, strict=True)]
    wanted = [
        (weight(name), item.score, item.step.number, at, place)
        for at, item in enumerate(elided)
        for place, name in enumerate(brought[at])
    ]
    wanted.sort(reverse=True)
    head_costs = [_LINE_TOKENS + counter.count(head) for head in heads]
    taken: list[list[int]] = [[] for _ in elided]
    opened: set[int] = set()
    for _, _, _, at, place in wanted:
        cost = counter.count(brought[at][place]) + 1
        if at not in opened:
            cost += head_costs[at]
        if cost <= room:
            room -= cost
            opened.add(at)
            taken[at].append(place)
    for at in sorted(range(len(elided)), key=lambda at: elided[at].step.number, reverse=True):
        if at not in opened and head_costs[at] <= room and heads[at]:
            room -= head_costs[at]
            opened.add(at)
    return {
        elided[at].step.number: _line(heads[at], [brought[at][p] for p in sorted(taken[at])])
        for at in sorted(opened)
    }


def _identifiers_of(texts: Iterable[str]) -> set[str]:
    known: set[str] = set()
    for text in texts:
        known.update(_names(text))
    return known


def _names(text: str) -> tuple[str, ...]:
    """Return the identifiers of a text; of a very long one, those of its two ends."""
    return listed(text) if len(text) <= _READ_CHARACTERS else _long_names(text)


def _read_long(text: str) -> tuple[str, ...]:
    if len(text) <= 2 * _READ_CHARACTERS:
        return identifiers(text)
    ends = (text[:_READ_CHARACTERS], text[-_READ_CHARACTERS:])
    return tuple(dict.fromkeys(name for end in ends for name in listed(end)))


_long_names = Memo(_read_long, 4_000_000)


def _brought(step: Step, head: str, known: set[str]) -> list[str]:
    """Return what the step is the first to bring, and add it to what is known."""
    said = set(head.split())
    names = [n for n in _names(step.observation) if n not in known and n not in said]
    known.update(names)
    return names


def _action(step: Step) -> str:
    """Return the action in short: each tool, and the first names of what it was called on."""
    if not step.calls:
        return " ".join(_names(step.action)[:_ACTION_IDENTIFIERS])
    words: list[str] = []
    for call in step.calls:
        words += [call.name, *_names(call.arguments)[:_ACTION_IDENTIFIERS]]
    return " ".join(words)


def _line(head: str, names: Sequence[str]) -> str:
    brought = " ".join(names)
    return f"{head}{_ARROW}{brought}".lstrip() if names else head
