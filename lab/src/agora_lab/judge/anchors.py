"""Points in recorded trajectories at which the next action needs an old step."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agora.core.protected import protected_steps
from agora.core.recall import recalled
from agora.core.request import Observations, Request
from agora.core.trajectory import Step, Trajectory
from agora.formats import Parsed, broken_rules, parse
from agora.scorers.atoms import act
from agora_lab.chats import K_RECENT
from agora_lab.names import identifiers, stands_in

Half = Literal["validation", "test"]
Message = Mapping[str, Any]
LEAST_OUTSIDE = 3
"""With fewer steps outside the floor there is hardly anything to choose from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A recorded trajectory, in OpenAI's chat format."""

    source: str
    kind: str
    """The kind of agent: `tools`, `coding`, `shell` or `text`."""
    task: str
    group: str
    """The unit on one side of validation and test: the task, or its repository."""
    id: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    observations: Observations | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A point just before an action that needs something from outside the floor."""

    recorded: Recorded
    step: int
    """The number of the step whose action is the target."""
    at: int
    """The target's place among the messages."""
    needed: tuple[str, ...]
    """Names that the action uses, that occur outside the floor and nowhere in it."""

    @property
    def key(self) -> str:
        """Its key."""
        return f"{self.recorded.source}|{self.recorded.id}|{self.step}"

    @property
    def half(self) -> Half:
        """The half it belongs to, the same for everything of its group."""
        return half_of(self.recorded.source, self.recorded.group)

    @property
    def messages(self) -> list[Message]:
        """The whole prompt."""
        return list(self.recorded.messages[: self.at])

    @property
    def target(self) -> Message:
        """The assistant's recorded answer."""
        return self.recorded.messages[self.at]


def half_of(source: str, group: str) -> Half:
    """Return the half of a group, by its name alone.

    >>> half_of("airline", "0") == half_of("airline", "0")
    True
    """
    drawn = hashlib.blake2b(f"{source}|{group}".encode(), digest_size=8).digest()
    return "validation" if drawn[0] % 2 == 0 else "test"


def lot(*parts: object) -> int:
    """Return a number that depends on these parts only, for a random but fixed order."""
    text = "|".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def parsed_of(recorded: Recorded) -> Parsed | None:
    """Return a recorded trajectory, parsed; None if a provider would refuse it."""
    request = Request(
        messages=list(recorded.messages),
        format="openai",
        observations=recorded.observations,
        tools=list(recorded.tools) or None,
    )
    return None if broken_rules(request) else parse(request)


def anchors_of(recorded: Recorded, *, k_recent: int = K_RECENT) -> Iterator[Anchor]:
    """Yield the anchors of a trajectory, earliest first."""
    parsed = parsed_of(recorded)
    if parsed is None:
        return
    trajectory = parsed.trajectory
    for step in trajectory.steps:
        past = trajectory.steps[: step.number - 1]
        held = protected_steps(past, k_recent=k_recent, recalled=recalled(past))
        if len(past) - len(held) < LEAST_OUTSIDE:
            continue
        needed = _needed(trajectory, step, past, held)
        if not needed:
            continue
        at = parsed.step_of_message.index(step.number)
        if recorded.messages[at].get("role") == "assistant":
            yield Anchor(recorded=recorded, step=step.number, at=at, needed=needed)


def _needed(
    trajectory: Trajectory, step: Step, past: Sequence[Step], held: Mapping[int, str]
) -> tuple[str, ...]:
    said = [utterance.text for utterance in trajectory.said_before(step.number)]
    floor_text = "\n".join(
        [trajectory.preamble, *said, *(_text(one) for one in past if one.number in held)]
    )
    outside = "\n".join(_text(one) for one in past if one.number not in held)
    uses = "\n".join(call.arguments for call in step.calls) or act(step)
    return tuple(
        name
        for name in dict.fromkeys(identifiers(uses))
        if stands_in(name, outside) and not stands_in(name, floor_text)
    )


def _text(step: Step) -> str:
    return f"{step.thought}\n{step.action}\n{step.observation}"
