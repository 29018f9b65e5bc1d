"""What an edit may see of a trajectory: nothing that came later."""

from collections.abc import Collection
from dataclasses import dataclass

from agora.core.trajectory import Anchor, Step, Trajectory, Utterance


@dataclass(frozen=True, slots=True)
class Past:
    """A trajectory up to the edit after so many steps."""

    preamble: str
    steps: tuple[Step, ...]
    said: tuple[Utterance, ...]
    anchor: Anchor
    fixed_tokens: int
    reading_tools: tuple[str, ...] = ()
    """As the trajectory has them, and those that change something."""
    changing_tools: tuple[str, ...] = ()

    @classmethod
    def of(cls, trajectory: Trajectory, epoch: int, *, newest: bool) -> "Past":
        """Return the past of the edit after `epoch` steps.

        What was said after the last of these steps is left out, so that the
        edit stays the same while more is said. With `newest` it is looked at:
        right where every call is an edit of its own.
        """
        said = trajectory.utterances if newest else trajectory.said_before(epoch)
        steps = trajectory.steps[:epoch]
        if trajectory.bound:
            # An edit takes out all thinking before it, of the steps that it keeps too.
            steps = tuple(step.without_thinking() for step in steps)
        return cls(
            preamble=trajectory.preamble,
            steps=steps,
            said=said,
            anchor=trajectory.anchor(epoch, newest=newest),
            fixed_tokens=trajectory.preamble_tokens + sum(u.tokens for u in said),
            reading_tools=trajectory.reading_tools,
            changing_tools=trajectory.changing_tools,
        )

    @property
    def tokens(self) -> int:
        """What it costs unedited."""
        return self.fixed_tokens + sum(step.tokens for step in self.steps)

    def floor_tokens(self, held: Collection[int]) -> int:
        """Return what it costs when only the steps in `held` are kept."""
        return self.fixed_tokens + sum(
            s.tokens if s.number in held else s.residue_tokens for s in self.steps
        )
