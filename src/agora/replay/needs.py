"""What each recorded action needed of earlier steps, and which actions asked for a thing again."""

from collections.abc import Iterable, Mapping, Sequence

from agora.core.reading.actions import done_by, used_by
from agora.core.reading.names import names_in
from agora.core.trajectory import Step, Trajectory

_SIGNS = str.maketrans('=;"', "   ")
"""What stands around the names of a line."""


class Needs:
    """Where in a trajectory the names stand that later actions are made of.

    An action needs a name that an earlier observation brought and that stands
    neither in the preamble nor in anything said before it. Presence is all that
    is looked at: a name that is still in the prompt may be there without its
    meaning, so a high share is necessary and not sufficient.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self._steps: dict[str, list[int]] = {}
        """By name: the steps whose action or observation has it, oldest first."""
        self._needed: list[tuple[str, ...]] = []
        self._used: list[Mapping[str, None]] = []
        """The names in each action."""
        said = set(names_in(trajectory.preamble))
        spoken = iter(trajectory.utterances)
        utterance = next(spoken, None)
        brought: set[str] = set()
        for step in trajectory.steps:
            while utterance is not None and utterance.after < step.number:
                said.update(names_in(utterance.text))
                utterance = next(spoken, None)
            uses = used_by(step)
            self._used.append(uses)
            self._needed.append(tuple(n for n in uses if n in brought and n not in said))
            observed = names_in(step.observation)
            for name in {*uses, *observed}:
                self._steps.setdefault(name, []).append(step.number)
            brought.update(name for name in observed if name not in uses)

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self._needed)

    def of(self, number: int) -> tuple[str, ...]:
        """Return the names that the action of this step needs of earlier ones."""
        return self._needed[number - 1]

    def met(self, number: int, elided: Iterable[tuple[int, str, bool]]) -> bool:
        """Tell whether all of them are in a prompt that lacks the steps in `elided`.

        Those are the number of each, the line that stands for it, and whether its action stays.
        """
        left = {step: (line, acts) for step, line, acts in elided}
        return all(self._stands(name, number, left) for name in self._needed[number - 1])

    def _stands(self, name: str, number: int, left: Mapping[int, tuple[str, bool]]) -> bool:
        for step in self._steps[name]:
            if step >= number:
                break
            line, acts = left.get(step, ("", True))
            if step not in left or (acts and name in self._used[step - 1]):
                return True
            if f" {name} " in f" {line.translate(_SIGNS)} ":
                return True
        return False


def rereads(steps: Sequence[Step]) -> list[int]:
    """Return the numbers of the steps that did again, word for word, what an earlier one did."""
    seen: set[object] = set()
    again = []
    for step in steps:
        key = done_by(step)
        if key in seen:
            again.append(step.number)
        seen.add(key)
    return again
