"""Coding sessions with models that bind thinking, drawn by seed, as requests."""

import random
from typing import Any

MODELS = ("claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5")
_WORDS = "def class import return load table order ticket price error path value row".split()
Json = dict[str, Any]


def drawn(seed: int) -> Json:
    """Return a request body."""
    source = random.Random(seed)
    messages: list[Json] = [{"role": "user", "content": f"Look into ticket {seed}."}]
    for step in range(source.randint(8, 80)):
        if source.random() < 0.08:
            said = [_thought(source), {"type": "text", "text": f"Done with part {step}."}]
            messages += [
                {"role": "assistant", "content": said},
                {"role": "user", "content": f"Go on with part {step + 1}."},
            ]
        messages += _step(source, step)
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "edit", "run")]
    body = {"model": source.choice(MODELS), "max_tokens": 900, "tools": tools}
    return body | {"system": "You mend software. " * 200, "messages": messages}


def _step(source: random.Random, step: int) -> list[Json]:
    calls: list[Json] = []
    results: list[Json] = []
    for call in range(source.choice((1, 1, 1, 2))):
        use = f"toolu_{step}_{call}"
        path = f"src/{source.choice(_WORDS)}_{source.randint(1, 60)}.py"
        name = source.choice(("read", "read", "edit", "run"))
        calls.append({"type": "tool_use", "id": use, "name": name, "input": {"path": path}})
        lines = (
            " ".join(source.choices(_WORDS, k=6)) + f" {source.randint(100, 99999)}"
            for _ in range(source.randint(5, 160))
        )
        results.append({"type": "tool_result", "tool_use_id": use, "content": "\n".join(lines)})
    thoughts = [_thought(source)] if source.random() < 0.8 else []
    return [
        {"role": "assistant", "content": [*thoughts, *calls]},
        {"role": "user", "content": results},
    ]


def _thought(source: random.Random) -> Json:
    text = " ".join(source.choices(_WORDS, k=source.randint(5, 60)))
    if source.random() < 0.1:
        return {"type": "redacted_thinking", "data": source.randbytes(48).hex()}
    return {"type": "thinking", "thinking": text, "signature": source.randbytes(48).hex()}
