"""Made-up trajectories of an agent that books, by tool calls or by text, for the judge's tests."""

import json
from typing import Any

from agora_lab.judge.anchors import Recorded

CODE = "HAT136"
"""What the first step brings and the last action needs."""
TOOLS = (
    {
        "type": "function",
        "function": {
            "name": "book",
            "description": "book",
            "parameters": {"type": "object", "properties": {"flight": {"type": "string"}}},
        },
    },
)


def _seen(number: int, code: str) -> str:
    if number > 1:
        return f"Page {number} is empty. " * 6
    return f"The early flight is {code}. It leaves at six and has seats left in every row."


def by_calls(task: str = "1", *, steps: int = 6, code: str = CODE) -> Recorded:
    """Return a trajectory of tool calls whose last call needs what the first one found."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You book flights."},
        {"role": "user", "content": f"Book the early flight, traveller {task}."},
    ]
    for number in range(1, steps + 1):
        last = number == steps
        name = "book" if last else "look"
        arguments = {"flight": code} if last else {"page": number}
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        seen = (
            f"The early flight is {code}. It leaves at six and has seats left in every row."
            if number == 1
            else f"Page {number} is empty. " * 6
        )
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": seen})
    return Recorded(
        source="made",
        kind="tools",
        task=task,
        group=task,
        id=f"made:{task}",
        messages=tuple(messages),
        tools=TOOLS,
    )


def by_text(task: str = "1", *, steps: int = 6, code: str = CODE) -> Recorded:
    """Return the same by text: thoughts aloud, then a command in a code block."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You book flights."},
        {"role": "user", "content": f"Book the early flight, traveller {task}."},
    ]
    for number in range(1, steps + 1):
        command = f"book {code}" if number == steps else f"look {number}"
        seen = (
            f"The early flight is {code}. It leaves at six and has seats left in every row."
            if number == 1
            else f"Page {number} is empty. " * 6
        )
        said = f"THOUGHT: on to number {number}, and so on.\n\n```bash\n{command}\n```"
        messages.append({"role": "assistant", "content": said})
        messages.append({"role": "user", "content": seen})
    return Recorded(
        source="text",
        kind="coding",
        task=task,
        group=task,
        id=f"text:{task}",
        messages=tuple(messages),
        observations="user",
    )
