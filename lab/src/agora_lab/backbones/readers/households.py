"""Looks after a house, goal by goal, from the text of a prompt alone.

ALFWorld's reader does the work. It is shown the prompt as if it were one of its own: what was
called as actions, what came of it as what is told, and the lines under markers as those of an
agent that acts by text. It takes the goal that was told last. What is added here is when to say
that a goal is done, or that it is given up.
"""

import json
import re
from dataclasses import dataclass, field

from agora_lab.backbones.base import prompt_blocks
from agora_lab.backbones.readers.alfworld import READER as HOUSE_READER
from agora_lab.backbones.readers.left import Apart, apart

DONE = "That is done. What is next?"
GIVEN_UP = "I am sorry, I could not do that. What is next?"
_MOST_STEPS = 40
_CALL = re.compile(r"act (\{.*\})")
_GOAL = re.compile(r"Your task is to: put an? (?:\w+ )?(\w+) in (\w+)\.")
_PUT = re.compile(r"You put the (\w+) \d{1,3} in/on the (\w+) \d{1,3}")


@dataclass(slots=True)
class _Visit:
    """The prompt in the form of ALFWorld's own, and how far the newest goal is."""

    blocks: list[str] = field(default_factory=list)
    goal: tuple[str, str] = ("", "")
    """Kind of the thing, and of where it has to go."""
    steps: int = 0
    newest: str = ""
    """What the newest call brought."""


class HouseholdReader:
    """Acts in the house, goal by goal, on what the prompt says."""

    def act(self, prompt: str) -> str:
        """Return the next call, or what is said; to any text there is one."""
        visit = _read(prompt)
        if not visit.goal[0]:
            return GIVEN_UP
        put = _PUT.search(visit.newest)
        if put is not None and (put[1], put[2]) == visit.goal:
            return DONE
        if visit.steps >= _MOST_STEPS:
            return GIVEN_UP
        action = HOUSE_READER.act("\n\n".join(visit.blocks))
        return f"act {json.dumps({'command': action})}"


def _read(prompt: str) -> _Visit:
    visit = _Visit()
    for role, text in prompt_blocks(prompt):
        if role == "SYSTEM":
            continue
        parts = apart(text, result=role == "TOOL")
        if role == "ASSISTANT":
            if call := _CALL.fullmatch(parts.own):
                visit.blocks.append(f"[ASSISTANT]\n{_command(call[1])}")
                visit.steps += 1
        elif role == "USER":
            goal = _GOAL.search(parts.own)
            visit.goal = (goal[1], goal[2]) if goal else ("", "")
            visit.steps, visit.newest = 0, ""
            visit.blocks.append(f"[USER]\n{parts.own}")
        else:
            visit.newest = parts.own
            visit.blocks.append(f"[USER]\n{parts.own}")
        if parts.marks and visit.blocks:
            visit.newest = ""
            visit.steps += sum(mark.steps for mark in parts.marks)
            visit.blocks[-1] += f"\n\n{_marked(parts)}"
    return visit


def _marked(parts: Apart) -> str:
    """Return markers as they are written for an agent that acts by text."""
    lines: list[str] = []
    for mark in parts.marks:
        lines.append(f"[... {mark.steps} step(s) elided ...]")
        for line in mark.lines:
            done = line.arguments.get("command") or line.done.removeprefix("act").strip()
            lines.append(f"{line.number} {done} -> {line.told.text}".rstrip(" ->"))
    return "\n".join(lines)


def _command(arguments: str) -> str:
    try:
        return str(json.loads(arguments)["command"])
    except (ValueError, KeyError, TypeError):
        return ""


READER = HouseholdReader()
