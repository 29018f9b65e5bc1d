"""Labels from a log alone: which past step brought a name that the next action was made of."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agora.core.floor import floor
from agora.core.identifiers import identifiers
from agora.core.recall import recalled
from agora.core.trajectory import Step, Trajectory
from agora.scorers.atoms import act

Act = Literal["step", "answer"]
"""What an anchor does: an action of a step, or an answer in words."""

K_RECENT = 2


@dataclass(frozen=True, slots=True)
class Need:
    """What an action needed of one past step."""

    anchor: int
    """How many steps came before the action."""
    act: Act
    candidate: int
    """The number of the past step."""
    names: tuple[str, ...]
    """What the action uses and only that step brought; empty when it was not needed."""

    @property
    def label(self) -> float:
        """1 when the action would have missed the step."""
        return 1.0 if self.names else 0.0


def hindsight(trajectory: Trajectory, *, k_recent: int = K_RECENT) -> Iterator[Need]:
    """Return, for each action and each past step outside the floor, whether it was needed.

    A step was needed if the action uses an identifier that stands in no other
    step outside the floor, and nowhere that is never elided: not in the
    preamble, not in what was said, not in the floor. What two steps brought
    is missed only when both are gone, so it makes neither of them needed.
    Names are looked for as whole words, so that `Johnson` is found in
    `Mei Johnson` and `12` not in `HAT129`.

    >>> steps = tuple(Step(number=n, action=f"open box {n}", observation=o, tokens=1)
    ...     for n, o in enumerate(["key 7", "pen 2", "", "", ""], start=1))
    >>> last = Step(number=6, action="take key 7", observation="", tokens=1)
    >>> past = Trajectory(task="", preamble="", preamble_tokens=0, steps=(*steps, last))
    >>> [need.candidate for need in hindsight(past) if need.label]
    [1]
    """
    places = _Places(trajectory)
    for anchor, what, text in _actions(trajectory):
        steps = trajectory.steps[:anchor]
        held = floor(steps, k_recent=k_recent, recalled=recalled(steps))
        candidates = [step.number for step in steps if step.number not in held]
        if not candidates:
            continue
        brought = _only_brought(places, text, anchor, held, set(candidates))
        for candidate in candidates:
            yield Need(anchor, what, candidate, tuple(brought.get(candidate, ())))


def _actions(trajectory: Trajectory) -> Iterator[tuple[int, Act, str]]:
    """Yield each action with the number of steps before it, and what it says."""
    answers: dict[int, list[str]] = defaultdict(list)
    for utterance in trajectory.utterances:
        if not utterance.by_user:
            answers[utterance.after].append(utterance.text)
    for at in range(len(trajectory.steps) + 1):
        if at in answers:
            yield at, "answer", "\n".join(answers[at])
        if at < len(trajectory.steps):
            step = trajectory.steps[at]
            arguments = "\n".join(call.arguments for call in step.calls)
            yield at, "step", arguments or act(step)


def _only_brought(
    places: "_Places",
    text: str,
    anchor: int,
    held: Mapping[int, str],
    candidates: set[int],
) -> dict[int, list[str]]:
    brought: dict[int, list[str]] = {}
    for name in identifiers(text):
        if places.said_before(name, anchor):
            continue
        having = [number for number in places.steps(name) if number <= anchor]
        if any(number in held for number in having):
            continue
        holders = [number for number in having if number in candidates]
        if len(holders) == 1:
            brought.setdefault(holders[0], []).append(name)
    return brought


class _Places:
    """Where in a trajectory a name stands, looked up once for each name."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._preamble = trajectory.preamble
        self._said = trajectory.utterances
        self._texts = [_text(step) for step in trajectory.steps]
        self._steps: dict[str, Sequence[int]] = {}
        self._first_said: dict[str, int] = {}

    def steps(self, name: str) -> Sequence[int]:
        """Return the numbers of the steps that have the name."""
        found = self._steps.get(name)
        if found is None:
            found = [n for n, text in enumerate(self._texts, start=1) if stands_in(name, text)]
            self._steps[name] = found
        return found

    def said_before(self, name: str, anchor: int) -> bool:
        """Tell whether the preamble has the name, or what was said up to the anchor."""
        first = self._first_said.get(name)
        if first is None:
            first = self._look(name)
            self._first_said[name] = first
        return first < anchor

    def _look(self, name: str) -> int:
        if stands_in(name, self._preamble):
            return -1
        for utterance in self._said:
            if stands_in(name, utterance.text):
                # An answer is said with the action that it is: it cannot tell itself the name.
                return utterance.after - utterance.by_user
        return len(self._texts) + 1


def _text(step: Step) -> str:
    return f"{step.thought}\n{step.action}\n{step.observation}"


def stands_in(name: str, text: str) -> bool:
    """Tell whether `name` stands in `text`, and not inside a longer word or number.

    >>> stands_in("Johnson", "Mei Johnson,"), stands_in("12", "HAT129")
    (True, False)
    """
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (_joins(before) and _joins(name[0])) and not (_joins(after) and _joins(name[-1])):
            return True
        start = text.find(name, start + 1)
    return False


def _joins(character: str) -> bool:
    return character.isalnum() or character == "_"
