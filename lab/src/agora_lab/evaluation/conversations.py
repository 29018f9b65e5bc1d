"""Trajectories as chats in which an agent acts by text, readable by every method and backbone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agora.core.trajectory import Step, Trajectory
from agora_lab.chats import split, text_of
from agora_lab.episodes.episode import Episode

INSTRUCTIONS = "You act step by step. Say the next action and nothing else."


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A trajectory as messages: instructions, task, then alternating actions and observations."""

    source: str
    """Its origin: an environment and who played it, or a log."""
    task: str
    """Groups trajectories: several may belong to one task."""
    id: str
    """Identifies it within its source."""
    world: str
    """The environment whose grammar its actions follow; empty for other logs."""
    messages: tuple[Mapping[str, Any], ...]

    @property
    def steps(self) -> int:
        """The number of actions."""
        return len(split(self.messages)[1])

    def before(self, step: int) -> list[Mapping[str, Any]]:
        """Return what the agent had seen before an action, numbered from 1."""
        preamble, turns = split(self.messages)
        return [*preamble, *(message for turn in turns[: step - 1] for message in turn)]

    def action(self, step: int) -> str:
        """Return the text of an action."""
        return text_of(split(self.messages)[1][step - 1][0])


def of_episode(episode: Episode) -> Conversation:
    """Return an episode as it was played, uncompressed."""
    return Conversation(
        source=f"{episode.cell.environment}, {episode.cell.backbone}",
        task=episode.task,
        id=episode.key,
        world=episode.cell.environment,
        messages=tuple(episode.conversation(len(episode.moves))),
    )


def of_trajectory(
    trajectory: Trajectory, *, source: str, task: str, key: str, world: str = ""
) -> Conversation:
    """Return a recorded trajectory as text, with tool calls and utterances written out.

    What the user says in the middle is appended to the preceding observation, and so
    is what the agent says without acting, marked as such.
    """
    said: dict[int, list[str]] = {}
    for utterance in trajectory.utterances:
        who = "user" if utterance.by_user else "you said"
        said.setdefault(utterance.after, []).append(f"{who}: {utterance.text}")
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": _joined([trajectory.preamble, *said.get(0, ())])},
    ]
    for step in trajectory.steps:
        messages.append({"role": "assistant", "content": action_text(step)})
        seen = _joined([step.observation, *said.get(step.number, ())])
        messages.append({"role": "user", "content": seen})
    return Conversation(source=source, task=task, id=key, world=world, messages=tuple(messages))


def action_text(step: Step) -> str:
    """Return an action as text: its own text, or its calls, one per line.

    >>> from agora.core.trajectory import Call
    >>> call = Call(name="read", arguments='{"path": "a"}')
    >>> action_text(Step(number=1, action="", observation="", tokens=1, calls=(call,)))
    'read {"path": "a"}'
    """
    if step.calls:
        return "\n".join(f"{call.name} {call.arguments}" for call in step.calls)
    return step.action


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text) or "(nothing)"
