"""Agent histories of a given length in the three APIs, as request bodies."""

import json
import random
from typing import Any

Body = dict[str, Any]
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
_WORDS = [
    "".join(random.Random(n).choices("abcdefghijklmnopqrstuvwxyz", k=2 + n % 8)) for n in range(900)
]


def observation(number: int, size: int = 1_500) -> str:
    """Return the text of a file: words, lines, names, quotation marks, other scripts."""
    chance = random.Random(number)
    lines = [f"# src/module_{number}.py “{number}” 世界"]
    while sum(map(len, lines)) < size:
        name = f"fn_{chance.randrange(10**4)}"
        lines.append(f'def {name}(x): return {{"k": [x, "{chance.choice(_WORDS)}"]}}')
        lines.append(" ".join(chance.choices(_WORDS, k=12)))
    return "\n".join(lines)


def chat(steps: int, size: int = 1_500, *, seed: int = 0) -> Body:
    """Return a body for chat completions; another seed is another conversation, in other words."""
    messages: list[Body] = [
        {"role": "system", "content": "You repair programs."},
        {"role": "user", "content": "Find where fn_77 is defined and fix it."},
    ]
    for n in range(1, steps + 1):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/module_{n}.py"})}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = observation(n + 100_000 * seed, size)
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": result})
    tool = {"type": "function", "function": {"name": "read", "parameters": _SCHEMA}}
    return {"model": "gpt-4o", "messages": messages, "tools": [tool]}


def responses(steps: int, size: int = 1_500) -> Body:
    """Return a body for responses."""
    items: list[Body] = [{"role": "user", "content": "Find where fn_77 is defined and fix it."}]
    for n in range(1, steps + 1):
        arguments = json.dumps({"path": f"src/module_{n}.py"})
        ids = {"call_id": f"call_{n}", "id": f"fc_{n}"}
        items.append({"type": "function_call", "name": "read", "arguments": arguments, **ids})
        output = observation(n, size)
        items.append({"type": "function_call_output", "call_id": f"call_{n}", "output": output})
    tool = {"type": "function", "name": "read", "parameters": _SCHEMA, "strict": False}
    return {"model": "gpt-4o", "input": items, "instructions": "Repair.", "tools": [tool]}


def messages(steps: int, size: int = 1_500) -> Body:
    """Return a body for messages."""
    turns: list[Body] = [{"role": "user", "content": "Find where fn_77 is defined and fix it."}]
    for n in range(1, steps + 1):
        use = {
            "type": "tool_use",
            "id": f"toolu_{n}",
            "name": "read",
            "input": {"path": f"m{n}.py"},
        }
        turns.append({"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]})
        result = {"type": "tool_result", "tool_use_id": f"toolu_{n}"}
        turns.append({"role": "user", "content": [{**result, "content": observation(n, size)}]})
    tool = {"name": "read", "description": "Reads a file.", "input_schema": _SCHEMA}
    return {
        "model": "claude-sonnet-4-6",
        "max_tokens": 100,
        "system": "Repair.",
        "messages": turns,
        "tools": [tool],
    }
