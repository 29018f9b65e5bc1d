"""The names of earlier steps that each recorded action needed, and a test for them in a prompt."""

from collections.abc import Iterable, Mapping

from agora.core.facts import names_in
from agora.core.trajectory import Step, Trajectory

_SIGNS = str.maketrans('=;,"', "    ")
"""The characters around the names of a line."""


def used_by(step: Step) -> dict[str, None]:
    """Return the names in an action: in its arguments, or else in its text."""
    return dict.fromkeys(names_in("\n".join(c.arguments for c in step.calls) or step.action))


class Needs:
    """The names that actions take from earlier observations.

    An action needs a name if an earlier observation has it, and neither the preamble nor an
    utterance before the action does. Only presence is checked: a name may still be in the prompt
    without its meaning, so a high share is necessary and not sufficient.
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
        """Return True if a prompt without the steps in `elided` still has all these names.

        An elided step has its number, the line that replaces it, and True if its action stays.
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
