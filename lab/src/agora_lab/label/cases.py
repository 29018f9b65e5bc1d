"""A case: one trajectory as chat messages that a backbone can be asked about."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, groupby, pairwise

from agora import Trajectory, parse
from agora.logs import Recording
from agora_lab.agents.examples import with_examples
from agora_lab.chats import K_RECENT, split
from agora_lab.episodes import Episode

Message = Mapping[str, str]

GAP = "\n\n"
"""Separates merged texts of adjacent messages with the same role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trajectory, and the messages a backbone is shown."""

    trajectory: str
    """The name of the trajectory in its log or run."""
    source: str
    task: str
    world: str = ""
    """The environment whose canonical form compares actions; empty for plain text."""
    messages: tuple[Message, ...]
    """The whole conversation, text only, examples included."""
    spans: tuple[tuple[int, int], ...]
    """The start and end of each step's messages: the action, then the observation."""
    steps: tuple[tuple[str, str], ...]
    """The action and the observation of each step, as a scorer reads them."""
    fixed: tuple[int, ...] = ()
    """The numbers of steps that are never left out."""

    @property
    def name(self) -> str:
        """A hash of the content: the same in every plan and on every machine."""
        return hashlib.sha256(self.to_json().encode("ascii")).hexdigest()[:24]

    def candidates(self, anchor: int) -> tuple[int, ...]:
        """Return the numbers of the past steps that may be left out before the action of a step."""
        older = range(1, max(1, anchor - K_RECENT))
        return tuple(number for number in older if number not in self.fixed)

    def prompt(self, anchor: int, candidate: int = 0) -> list[Message]:
        """Return the prompt before the action of a step, without the candidate's messages.

        Candidate 0 leaves nothing out. Adjacent messages with the same role are merged,
        since strict chat templates reject them.
        """
        end = self.spans[anchor - 1][0]
        if not candidate:
            return joined(self.messages[:end])
        start, after = self.spans[candidate - 1]
        return joined([*self.messages[:start], *self.messages[after:end]])

    def to_json(self) -> str:
        """Return the case as one line of ASCII."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Case":
        """Return the case in a line."""
        values = json.loads(text)
        for name in ("spans", "steps"):
            values[name] = tuple(map(tuple, values[name]))
        for name in ("messages", "fixed"):
            values[name] = tuple(values[name])
        return cls(**values)


def joined(messages: Sequence[Message]) -> list[Message]:
    r"""Return the messages with adjacent ones of the same role merged.

    >>> joined([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    [{'role': 'user', 'content': 'a\n\nb'}]
    """
    return [
        {"role": role, "content": GAP.join(message["content"] for message in run)}
        for role, run in groupby(messages, key=lambda message: message["role"])
    ]


def from_episode(episode: Episode, *, examples: str = "") -> Case | None:
    """Return a played episode as an LLM cell of the lab would be shown it; None without moves.

    The examples of its world become messages between the instructions and the task.
    They are not steps and are never left out.
    """
    if not episode.moves or any(move.called for move in episode.moves):
        return None
    chat = episode.conversation(len(episode.moves))
    shown = with_examples(chat, examples)
    # Examples come before the task, so the steps are the same number of messages at the end.
    _, turns = split(chat)
    ends = list(accumulate(map(len, turns), initial=len(shown) - sum(map(len, turns))))
    return Case(
        trajectory=episode.key,
        source=episode.cell.environment,
        task=episode.task,
        world=episode.cell.environment,
        messages=tuple({"role": str(one["role"]), "content": str(one["content"])} for one in shown),
        spans=tuple(pairwise(ends)),
        steps=tuple((move.answer, move.observation) for move in episode.moves),
    )


def from_trajectory(
    whole: Trajectory, *, name: str, source: str, task: str, system: str = ""
) -> Case | None:
    """Return a recorded trajectory as plain text messages that any chat model can be asked about.

    A tool call becomes the agent's text `name arguments`, its result the user's. Reasoning is left
    out, so that what a backbone answers is an action and can be compared with one. None for a
    trajectory without steps.

    Args:
        whole: The trajectory.
        name: Its name in the log.
        source: The log.
        task: The unit that must be on one side of a split.
        system: System text and tools that were sent beside the messages.
    """
    if not whole.steps:
        return None
    before = GAP.join(text for text in (system, whole.preamble.removesuffix(whole.task)) if text)
    messages: list[Message] = []
    if before.strip():
        messages.append({"role": "system", "content": before.strip()})
    messages.append({"role": "user", "content": whole.task})
    messages += _spoken(whole, 0)
    spans: list[tuple[int, int]] = []
    for step in whole.steps:
        start = len(messages)
        messages.append({"role": "assistant", "content": step.action})
        messages.append({"role": "user", "content": step.observation})
        spans.append((start, len(messages)))
        messages += _spoken(whole, step.number)
    return Case(
        trajectory=name,
        source=source,
        task=task,
        messages=tuple(messages),
        spans=tuple(spans),
        steps=tuple((step.action, step.observation) for step in whole.steps),
        fixed=tuple(s.number for s in whole.steps if s.fixed or not s.removable),
    )


def from_recording(recording: Recording, *, source: str) -> Case | None:
    """Return a recording of a log as a case; None without steps.

    Raises:
        AgoraError: It cannot be read.
    """
    whole = parse(
        recording.messages,
        format=recording.format,
        system=recording.system,
        tools=recording.tools,
        observations=recording.observations,
    )
    parts = []
    if recording.system:
        system = recording.system
        parts.append(system if isinstance(system, str) else json.dumps(system, ensure_ascii=False))
    if recording.tools:
        parts.append(f"Tools:\n{json.dumps(recording.tools, ensure_ascii=False)}")
    return from_trajectory(
        whole,
        name=recording.id,
        source=source,
        task=recording.task or whole.task.strip()[:200] or recording.id,
        system=GAP.join(parts),
    )


def _spoken(whole: Trajectory, step: int) -> Iterator[Message]:
    for utterance in whole.utterances:
        if utterance.after == step:
            role = "user" if utterance.by_user else "assistant"
            yield {"role": role, "content": utterance.text}
