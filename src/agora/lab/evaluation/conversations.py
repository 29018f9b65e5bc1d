"""Trajectories as chats in which an agent acts by text: what every method and backbone can read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agora.core.trajectory import Step, Trajectory
from agora.lab.episodes.episode import Episode

INSTRUCTIONS = "You act step by step. Say the next action and nothing else."


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A trajectory as messages: instructions, task, then an action and an observation by turns."""

    source: str
    """Where it is from: an environment and who played it, or a log."""
    task: str
    """What belongs together: several trajectories may be of one task."""
    id: str
    """What tells it from the others of its source."""
    world: str
    """The environment whose grammar its actions have; empty for a log of anything else."""
    messages: tuple[Mapping[str, Any], ...]

    @property
    def steps(self) -> int:
        """How many actions were taken."""
        return (len(self.messages) - 2) // 2

    def before(self, step: int) -> list[Mapping[str, Any]]:
        """Return what the agent had seen before the action of that number, from 1."""
        return list(self.messages[: 2 * step])

    def action(self, step: int) -> str:
        """Return what it did then."""
        return str(self.messages[2 * step]["content"])


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
    """Return a recorded trajectory as text: calls are written out, what was said stands beside.

    What the user says in the middle is put behind the observation before it, and
    what the agent says without acting as well, with a word that it did.
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
    """Return an action as text: what was said, or its calls, one per line.

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
