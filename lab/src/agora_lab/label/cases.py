"""A case: one trajectory as chat messages that a backbone can be asked about."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, groupby, pairwise

from agora import Trajectory, parse
from agora_lab.agents.examples import with_examples
from agora_lab.chats import split
from agora_lab.episodes import Episode
from agora_lab.labels import data_hash, record, trajectory_from

Message = Mapping[str, str]

GAP = "\n\n"
"""Separates merged texts of adjacent messages with the same role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trajectory, and the messages a backbone is shown."""

    trajectory: str
    """The name of the trajectory in its log or run."""
    data: str
    """The hash of the trajectory, as in the labels."""
    source: str
    task: str
    world: str
    """The environment whose canonical form compares actions; empty for plain text."""
    messages: tuple[Message, ...]
    """The whole conversation, text only, examples included."""
    steps: tuple[tuple[int, int], ...]
    """The start and end of each step's messages: the action, then the observation."""
    actions: tuple[str, ...]
    """The recorded answer at each step."""
    whole: Trajectory
    """What labels are about: the trajectory as scorers see it, without examples."""

    def candidates(self, anchor: int, *, k_recent: int) -> list[int]:
        """Return the numbers of the past steps that may be left out before the action of a step."""
        past = self.whole.steps[: anchor - 1]
        # The newest step holds the current observation, whatever `k_recent` is.
        older = past[: len(past) - max(1, k_recent)]
        return [step.number for step in older if step.removable and not step.fixed]

    def prompt(self, anchor: int, candidate: int = 0) -> list[Message]:
        """Return what is shown before the action of a step, without the candidate's messages.

        Candidate 0 leaves nothing out. Adjacent messages with the same role are merged,
        since strict chat templates reject them.
        """
        end = self.steps[anchor - 1][0]
        if not candidate:
            return joined(self.messages[:end])
        start, after = self.steps[candidate - 1]
        return joined([*self.messages[:start], *self.messages[after:end]])

    def to_json(self) -> str:
        """Return the case as one line of ASCII."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        plain["whole"] = record(self.whole)
        return json.dumps(plain, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Case":
        """Return the case in a line."""
        found = json.loads(text)
        found["whole"] = trajectory_from(found["whole"])
        found["messages"] = tuple(found["messages"])
        found["steps"] = tuple((start, end) for start, end in found["steps"])
        found["actions"] = tuple(found["actions"])
        return cls(**found)


def joined(messages: Sequence[Message]) -> list[Message]:
    r"""Return the messages with adjacent ones of the same role merged.

    >>> joined([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    [{'role': 'user', 'content': 'a\n\nb'}]
    """
    whole: list[Message] = []
    for role, run in groupby(messages, key=lambda message: message["role"]):
        first, *others = run
        if others:
            text = GAP.join(one["content"] for one in (first, *others))
            whole.append({"role": role, "content": text})
        else:
            whole.append(first)
    return whole


def from_episode(episode: Episode, *, examples: str = "") -> Case | None:
    """Return a played episode as an LLM cell of the lab would be shown it, or None without steps.

    The examples of its world become messages between the instructions and the task.
    They are not steps and are never left out.
    """
    chat = episode.conversation(len(episode.moves))
    whole = parse(chat, format="openai", observations="user")
    if not episode.moves or len(whole.steps) != len(episode.moves):
        return None
    shown = with_examples(chat, examples)
    # Examples are put in before the task, so the steps are the same number of messages at the end.
    _, turns = split(chat)
    ends = list(accumulate(map(len, turns), initial=len(shown) - sum(map(len, turns))))
    return Case(
        trajectory=episode.key,
        data=data_hash(whole),
        source=episode.cell.environment,
        task=episode.task,
        world=episode.cell.environment,
        messages=tuple({"role": str(one["role"]), "content": str(one["content"])} for one in shown),
        steps=tuple(pairwise(ends)),
        actions=tuple(move.answer for move in episode.moves),
        whole=whole,
    )


def from_trajectory(
    whole: Trajectory, *, name: str, source: str, task: str, system: str = "", world: str = ""
) -> Case | None:
    """Return a recorded trajectory as plain text messages that any chat model can be asked about.

    A tool call becomes the agent's text `name arguments`, its result the
    user's. Reasoning is left out, so that what a backbone answers is an action
    and can be compared with one. `system` is what stood beside the messages:
    system text of its own, and the tools. None for a trajectory without steps.
    """
    if not whole.steps:
        return None
    before = GAP.join(text for text in (system, whole.preamble.removesuffix(whole.task)) if text)
    messages: list[Message] = []
    if before.strip():
        messages.append({"role": "system", "content": before.strip()})
    messages.append({"role": "user", "content": whole.task})
    spans: list[tuple[int, int]] = []
    said = _Said(whole)
    messages += said.after(0)
    for step in whole.steps:
        start = len(messages)
        messages.append({"role": "assistant", "content": step.action})
        messages.append({"role": "user", "content": step.observation})
        spans.append((start, len(messages)))
        messages += said.after(step.number)
    return Case(
        trajectory=name,
        data=data_hash(whole),
        source=source,
        task=task,
        world=world,
        messages=tuple(messages),
        steps=tuple(spans),
        actions=tuple(step.action for step in whole.steps),
        whole=whole,
    )


class _Said:
    """What was said between the steps of a trajectory, as messages."""

    def __init__(self, whole: Trajectory) -> None:
        self._after: dict[int, list[Message]] = {}
        for one in whole.utterances:
            role = "user" if one.by_user else "assistant"
            self._after.setdefault(one.after, []).append({"role": role, "content": one.text})

    def after(self, step: int) -> Iterator[Message]:
        yield from self._after.get(step, ())
