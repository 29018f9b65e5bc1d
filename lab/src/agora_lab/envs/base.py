"""The protocol of an environment in which an agent acts by text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of an episode."""

    task: str
    """The task, in the environment's own words."""
    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an action."""

    observation: str
    reward: float
    """The total reward of the episode so far, in [0, 1], not the gain of this action."""
    terminated: bool
    """True if the environment has ended the episode."""
    valid: bool
    """True if the environment understood the action, useful or not."""


class Environment(Protocol):
    """A world that can be started on a task and acted in. Not thread-safe."""

    def reset(self, task: str) -> Start:
        """Begin the task with that id, deterministically."""
        ...

    def step(self, action: str) -> Outcome:
        """Perform the action."""
        ...

    def close(self) -> None:
        """Release processes, sockets and memory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The description of an environment, before one is started."""

    name: str
    make: Callable[[], Environment]
    """Starts one. This takes seconds, so it is reset and reused."""
    instructions: str
    """The agent's instructions before its task: its abilities, and the action grammar."""
    examples: str
    """Few-shot examples of our own, shown only to language models."""
    splits: Callable[[], Mapping[str, Sequence[str]]]
    """Task ids by split, in a fixed order, from the data file; checked to be disjoint."""
    extract: Callable[[str], str]
    """Extracts the action from an answer: its first line that is one, without decoration."""
    canonical: Callable[[str], str]
    """Maps equivalent actions to one form, so that they can be compared."""
    most_steps: int = 30
    """Most steps of an episode."""
    calls: bool = False
    """True if actions are calls of tools, written as a name and its arguments in JSON. Anything
    else is said to the user, whose messages are then no observations."""
