"""The text that replaces elided steps: markers, and the skeletons listed in them."""

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


SIGNATURE = ". The context compressor wrote this to save space, not the user or a tool."
"""Ends the first line of a marker inside user text. Names in a marker come from what tools
returned: without it they would have the user's authority."""


NOT_THE_USER = ", not the user"
"""The same in a marker of forms, in few words: a conversation has many of them."""
_BY = " by the context compressor"


class Markers(Protocol):
    """Writes the text that replaces elided steps."""

    def run(self, steps: Sequence[tuple[int, str]], *, signed: bool = False) -> str:
        """Return the marker of a run of removed steps, given as (number, skeleton line).

        `signed` adds a sentence that says who wrote it, for a marker inside user text.
        """
        ...

    def mask(self, number: int, line: str) -> str:
        """Return the replacement for a result of a step masked in place."""
        ...


@dataclass(frozen=True, slots=True)
class SkeletonMarkers:
    """The default markers: which steps were elided, and a line for what each of them brought.

    They do not look like a call, a role or an instruction, because a backbone
    imitates what it sees.

    >>> print(SkeletonMarkers().run([(3, "get_flight HAT136 -> 2024-05-20"), (4, "")]))
    [steps 3-4 elided]
    3 get_flight HAT136 -> 2024-05-20
    >>> print(SkeletonMarkers().run([(3, "")], signed=True))
    [step 3 elided. The context compressor wrote this to save space, not the user or a tool.]
    """

    recall: bool = False
    """Whether the recall tool is offered: only then do markers mention it."""

    def run(self, steps: Sequence[tuple[int, str]], *, signed: bool = False) -> str:
        """Return the marker of a run of removed steps."""
        return _run(steps, f"{_hint(self.recall)}{SIGNATURE if signed else ''}")

    def mask(self, number: int, line: str) -> str:
        """Return the replacement for a masked step's result: what it brought, not what it did."""
        brought = f" {line}".partition(ARROW)[2]
        head = f"[step {number} elided{_hint(self.recall)}]"
        return f"{head} {brought}" if brought else head


@dataclass(frozen=True, slots=True)
class FormMarkers:
    """The markers and notes of forms: what was done in each step, how it went, what it brought.

    >>> print(FormMarkers().run([(3, "get_flight number=HAT136 -> ok date=2024-05-20"), (4, "")]))
    [steps 3-4 elided by the context compressor]
    3 get_flight number=HAT136 -> ok date=2024-05-20
    >>> FormMarkers().mask(3, "get_flight number=HAT136 -> ok date=2024-05-20")
    '[step 3: result elided by the context compressor] ok date=2024-05-20'
    """

    recall: bool = False
    """Whether the recall tool is offered: only then do markers mention it."""
    signed: bool = True
    """Whether they say who wrote them outside user text too."""

    def run(self, steps: Sequence[tuple[int, str]], *, signed: bool = False) -> str:
        """Return the marker of a run of removed steps."""
        by = _BY if self.signed or signed else ""
        return _run(steps, f"{by}{NOT_THE_USER if signed else ''}{_hint(self.recall)}")

    def mask(self, number: int, line: str) -> str:
        """Return the note in place of a result: how it went and what it brought."""
        by = _BY if self.signed else ""
        head = f"[step {number}: result elided{by}{_hint(self.recall)}]"
        brought = line.rpartition(ARROW)[2] if ARROW in line else ""
        return f"{head} {brought}" if brought else head


@dataclass(frozen=True, slots=True)
class PaperMarkers:
    """The paper's bare wording.

    >>> PaperMarkers().run([(3, ""), (4, "")])
    '[... 2 step(s) elided ...]'
    """

    def run(self, steps: Sequence[tuple[int, str]], *, signed: bool = False) -> str:  # noqa: ARG002
        """Return the marker of a run of removed steps."""
        return f"[... {len(steps)} step(s) elided ...]"

    def mask(self, number: int, line: str) -> str:  # noqa: ARG002
        """Return the replacement for a result of a masked step."""
        return "[... 1 step(s) elided ...]"


def _run(steps: Sequence[tuple[int, str]], rest: str) -> str:
    first, last = steps[0][0], steps[-1][0]
    which = f"step {first}" if first == last else f"steps {first}-{last}"
    lines = [f"{number} {line}" for number, line in steps if line]
    return "\n".join([f"[{which} elided{rest}]", *lines])


def _hint(recall: bool) -> str:
    return f"; {TOOL_NAME} shows one by its number" if recall else ""


ARROW = " -> "
"""Stands in a line between what a step did and what it brought."""


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
    and that appear nowhere else: not in `present`, the texts that stay, and not
    in an earlier line. Every identifier is copied from its step. The ones
    that actions are most often made of come first (`identifiers.weight`).

    >>> from agora.core.tokens import Characters
    >>> step = Step(number=3, action="open box 1", observation="In it: key 7.", tokens=9)
    >>> skeletons([Elided(step, 0.5)], present=[], room=99, counter=Characters())
    {3: 'box 1 -> key 7'}
    """
    known = names_in(present)
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


def names_in(texts: Iterable[str]) -> set[str]:
    """Return every identifier that stands in one of the texts."""
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


_long_names = Memo(_read_long, 4_000_000, name="long_identifiers")


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
    return f"{head}{ARROW}{brought}".lstrip() if names else head
