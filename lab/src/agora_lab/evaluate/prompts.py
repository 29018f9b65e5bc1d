"""The same prompts under every method: the steps that stay, and the loss of action grammar.

Prompts and next actions are those of the uncompressed episodes. So the methods are compared at
identical points, and every next action followed from the whole prompt.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora_lab.agents import prompt_text
from agora_lab.chats import message_text
from agora_lab.episodes import Cell, Episode
from agora_lab.evaluate.play import started_method

_GRAMMAR = re.compile(r"\w+|[^\w\s]")
"""A token of an action: a word, an identifier, or a bracket."""
_ROLE = re.compile(r"^\[(?:SYSTEM|USER|ASSISTANT|TOOL)\]$", re.MULTILINE)
_RECENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptTask:
    """An uncompressed episode whose prompts a method is to shorten."""

    cell: Cell
    task: str
    most: int
    """Most prompts."""
    scorer: str = ""


def compare_prompts(work: tuple[PromptTask, Episode]) -> dict[str, Any]:
    """Shorten the prompts of an episode and count the rest. Runs as a task on Ray."""
    task, episode = work
    method = started_method(task.cell, task.scorer)
    calls = [at for at in range(len(episode.moves)) if at > _RECENT]
    rows = []
    # The latest prompts are the longest: those that a method changes.
    for at in calls[-task.most :]:
        whole = episode.conversation(at)
        shortened = method.shorten(whole)
        rows.append(
            {
                "call": at,
                "kept": kept_steps(whole, shortened.messages),
                **grammar(episode.moves[at].action, whole, shortened.messages),
            }
        )
    return {"key": task.cell.key(task.task), "calls": rows}


def kept_steps(whole: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the numbers of the steps that the shortened prompt holds verbatim.

    A step is an action and its observation. Of two equal steps the later one counts.

    >>> chat = [{"role": r, "content": c} for r, c in (
    ...     ("system", "s"), ("user", "t"), ("assistant", "look"), ("user", "dust"),
    ...     ("assistant", "open"), ("user", "a key"))]
    >>> kept_steps(chat, [*chat[:2], *chat[4:]])
    [2]
    """
    text = prompt_text(sent)
    steps = [
        (message_text(whole[at]), message_text(whole[at + 1])) for at in range(2, len(whole), 2)
    ]
    kept: list[int] = []
    end = len(text)
    for number in range(len(steps), 0, -1):
        action, observation = steps[number - 1]
        place = text.rfind(observation, 0, end)
        before = text.rfind(action, 0, place) if place >= 0 else -1
        # Only the role's mark separates an action from its observation.
        if before >= 0 and place - before - len(action) <= len("\n\n[ASSISTANT]\n"):
            kept.append(number)
            end = before
    kept.reverse()
    return kept


def grammar(
    action: str, whole: Sequence[Mapping[str, Any]], sent: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Return the counts of action grammar before and after shortening.

    `next` counts the next action's tokens in the whole prompt, `next_lost` those that the shortened
    prompt lacks. `commands` counts the past actions, `commands_whole` those that are left verbatim.
    """
    before = Counter(_GRAMMAR.findall(_ROLE.sub("", prompt_text(whole))))
    text = _ROLE.sub("", prompt_text(sent))
    after = Counter(_GRAMMAR.findall(text))
    tokens = [token for token in _GRAMMAR.findall(action) if before[token]]
    commands = [message_text(m) for m in whole[2:] if m["role"] == "assistant"]
    return {
        "next": len(tokens),
        "next_lost": sum(not after[token] for token in tokens),
        "commands": len(commands),
        "commands_whole": sum(command in text for command in commands),
        "tokens": sum(before.values()),
        "tokens_left": sum(after.values()),
    }
