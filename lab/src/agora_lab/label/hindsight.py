"""Labels from a log alone: which past step introduced a name that the next action uses."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agora.core.protected import protected_steps
from agora.core.recall import recalled
from agora.core.trajectory import Step, Trajectory
from agora.scorers.atoms import act
from agora_lab.names import identifiers

K_RECENT = 2


@dataclass(frozen=True, slots=True)
class Need:
    """What an action needed from one past step."""

    anchor: int
    """The number of the step whose action is examined."""
    candidate: int
    """The number of the past step."""
    names: tuple[str, ...]
    """Names that the action uses and only that step introduced; empty if it was not needed."""

    @property
    def label(self) -> float:
        """1 if the action needed the step, else 0."""
        return 1.0 if self.names else 0.0


def hindsight(trajectory: Trajectory, *, k_recent: int = K_RECENT) -> Iterator[Need]:
    """Return, for each action and each past step outside the floor, whether it was needed.

    A step was needed if its observation introduced an identifier that the action uses
    and that appears in no other step outside the floor, and nowhere that is never
    elided: not in the preamble, the utterances or the floor. What the agent wrote into
    an action by itself it can write again, so only observations introduce names, and
    not those they echo. A name in two steps is lost only when both are gone, so it
    makes neither of them needed. Names are matched as whole words: `Johnson` is found
    in `Mei Johnson`, `12` not in `HAT129`.

    Only actions are examined, not answers in prose: many names in prose are just words
    (lab/notebook/2026-11.md).

    >>> steps = tuple(Step(number=n, action=f"open box {n}", observation=o, tokens=1)
    ...     for n, o in enumerate(["key 7", "pen 2", "", "", ""], start=1))
    >>> last = Step(number=6, action="take key 7", observation="", tokens=1)
    >>> past = Trajectory(task="", preamble="", preamble_tokens=0, steps=(*steps, last))
    >>> [need.candidate for need in hindsight(past) if need.label]
    [1]
    """
    places = _Places(trajectory)
    for step in trajectory.steps:
        past = trajectory.steps[: step.number - 1]
        held = protected_steps(past, k_recent=k_recent, recalled=recalled(past))
        candidates = [one.number for one in past if one.number not in held]
        if not candidates:
            continue
        brought = _only_brought(places, step, held)
        for candidate in candidates:
            yield Need(step.number, candidate, tuple(brought.get(candidate, ())))


def _only_brought(
    places: "_Places", step: Step, held: Collection[int]
) -> Mapping[int, Sequence[str]]:
    """Return the names the step's action uses, by the one past step that introduced them."""
    brought: dict[int, list[str]] = {}
    uses = "\n".join(call.arguments for call in step.calls) or act(step)
    for name in identifiers(uses):
        if places.said_before(name, step.number):
            continue
        having = [number for number in places.steps(name) if number < step.number]
        if len(having) == 1 and having[0] not in held and places.observed(name, having[0]):
            brought.setdefault(having[0], []).append(name)
    return brought


class _Places:
    """Where names appear in a trajectory, looked up once per name."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
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

    def observed(self, name: str, number: int) -> bool:
        """Whether the name was introduced, not just echoed: errors repeat the action."""
        step = self._trajectory.steps[number - 1]
        return stands_in(name, step.observation) and not stands_in(name, step.action)

    def said_before(self, name: str, number: int) -> bool:
        """Whether the name is in the preamble or in an utterance before the step."""
        first = self._first_said.get(name)
        if first is None:
            first = self._look(name)
            self._first_said[name] = first
        return first < number

    def _look(self, name: str) -> int:
        if stands_in(name, self._trajectory.preamble):
            return 0
        for utterance in self._trajectory.utterances:
            if stands_in(name, utterance.text):
                return utterance.after
        return len(self._texts) + 1


def _text(step: Step) -> str:
    return f"{step.thought}\n{step.action}\n{step.observation}"


def stands_in(name: str, text: str) -> bool:
    """Whether `name` is in `text` as a whole word, not inside a longer word or number.

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
