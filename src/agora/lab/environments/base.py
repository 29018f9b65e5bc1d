"""What the lab asks of a world in which an agent acts by text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What an episode begins with."""

    task: str
    """What is asked of the agent, in the environment's own words."""
    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an action led to."""

    observation: str
    reward: float
    """All reward of the episode so far, in [0, 1], not what this action added."""
    terminated: bool
    """Whether the environment says that it is over."""
    valid: bool
    """Whether the environment could make anything of the action. Not whether it helped."""


class Environment(Protocol):
    """One world that can be started on a task and acted in. Not shared between threads."""

    def reset(self, task: str) -> Start:
        """Begin the task with that id, the same way each time."""
        ...

    def step(self, action: str) -> Outcome:
        """Do what the action says."""
        ...

    def close(self) -> None:
        """Give back what was started: processes, sockets, memory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """What an agent may do now, for backbones that can be held to it."""

    actions: tuple[str, ...]
    """Each to the letter."""
    verbs: tuple[str, ...] = ()
    """Actions whose words are free: `search` stands for `search[anything]`."""


@runtime_checkable
class Choosing(Protocol):
    """An environment that can say what may be done in it."""

    def allowed(self) -> Allowed:
        """Return every action that would do something now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is known about an environment before one is started."""

    name: str
    make: Callable[[], Environment]
    """Start one. It costs seconds; it is reset many times."""
    instructions: str
    """What an agent is told before its task: what there is to do, and the grammar of actions."""
    examples: str
    """Few-shot examples of our own making, shown to language models only."""
    splits: Callable[[], Mapping[str, Sequence[str]]]
    """Task ids by split, in a fixed order, from the data file; checked to be disjoint."""
    extract: Callable[[str], str]
    """The action in what a backbone answered: its first line that is one, without decoration."""
    canonical: Callable[[str], str]
    """One form for actions that do the same, so that two can be compared."""
    most_steps: int = 30
    """After so many steps an episode is cut off."""
