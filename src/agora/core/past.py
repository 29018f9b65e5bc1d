"""The part of a trajectory that an edit may see: nothing that comes later."""

from collections.abc import Collection
from dataclasses import dataclass

from agora.core.trajectory import Query, Step, Trajectory, Utterance


@dataclass(frozen=True, slots=True)
class Past:
    """A trajectory up to an edit."""

    preamble: str
    steps: tuple[Step, ...]
    utterances: tuple[Utterance, ...]
    query: Query
    fixed_tokens: int
    reading_tools: tuple[str, ...] = ()
    """Tools that only read, and tools that change something, by their own annotations."""
    changing_tools: tuple[str, ...] = ()

    @classmethod
    def of(cls, trajectory: Trajectory, last: int, *, newest: bool) -> "Past":
        """Return the past of the edit after `last` steps.

        Utterances after the last of these steps are left out, so that the edit stays
        the same while the conversation grows. With `newest` they count, which is
        right if every call is an edit of its own.
        """
        utterances = trajectory.utterances if newest else trajectory.said_before(last)
        steps = trajectory.steps[:last]
        if trajectory.bound:
            # An edit removes all earlier thinking, also that of the steps that it keeps.
            steps = tuple(step.without_thinking() for step in steps)
        return cls(
            preamble=trajectory.preamble,
            steps=steps,
            utterances=utterances,
            query=trajectory.query(last, newest=newest),
            fixed_tokens=trajectory.preamble_tokens + sum(u.tokens for u in utterances),
            reading_tools=trajectory.reading_tools,
            changing_tools=trajectory.changing_tools,
        )

    @property
    def tokens(self) -> int:
        """Its tokens unedited."""
        return self.fixed_tokens + sum(step.tokens for step in self.steps)

    def least_tokens(self, protected: Collection[int]) -> int:
        """Return its tokens if only the protected steps are kept."""
        return self.fixed_tokens + sum(
            s.tokens if s.number in protected else s.residue_tokens for s in self.steps
        )
