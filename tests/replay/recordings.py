"""Recordings made up for the tests of replays."""

import json
from typing import Any

from agora import PriceSheet
from agora.logs import Recording
from agora.replay import Replayed, replay_by


def replay(recording: Recording, sheet: PriceSheet) -> Replayed:
    """Return the cost of a recording by one price sheet."""
    [replayed] = replay_by(recording, (sheet,))
    return replayed


def messages(steps: int, *, words: int = 300, task: str = "Find the key.") -> list[dict[str, Any]]:
    """Return chat messages of an agent that opens one file after the other."""
    out: list[dict[str, Any]] = [
        {"role": "system", "content": "You look for things. " * 200},
        {"role": "user", "content": task},
    ]
    for n in range(steps):
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/part_{n}.py"})}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        out += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{n}", "content": f"item {n} " * words},
        ]
    return out


def recording(name: str, steps: int, *, words: int = 300, model: str = "gpt-4o") -> Recording:
    """Return a recording of such an agent."""
    return Recording(id=name, format="openai", messages=messages(steps, words=words), model=model)
