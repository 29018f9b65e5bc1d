"""Pydantic AI's zero-LLM compaction capabilities, from the released harness."""

import asyncio
import importlib
import json
from collections.abc import Callable
from typing import Any

TITLE = "Pydantic AI"
SOURCE = "pydantic-ai-harness README, compaction: the examples of its own docstrings"
PACKAGES = ("pydantic-ai-harness==0.62.0",)
KEEPS = True
SETTINGS: dict[str, dict[str, Any]] = {
    "ClearToolResults(100k, keep 3)": {"kind": "ClearToolResults", "max_tokens": 100_000},
    "SlidingWindowCompaction(80, keep 40)": {
        "kind": "SlidingWindowCompaction",
        "max_messages": 80,
        "keep_messages": 40,
    },
}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: its trigger, then its compact(); edits persist, as it documents."""
    harness = importlib.import_module("pydantic_ai_harness.compaction")
    m = importlib.import_module("pydantic_ai.messages")
    options = {key: value for key, value in settings.items() if key != "kind"}
    strategy = getattr(harness, settings["kind"])(**options)

    def part(message: dict[str, Any]) -> Any:
        text = message["content"]
        if message["role"] == "tool":
            return m.ToolReturnPart("tool", text, message["tool_call_id"])
        return (m.SystemPromptPart if message["role"] == "system" else m.UserPromptPart)(text)

    def edit(messages: list[dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
        history: list[Any] = []
        origin: dict[int, dict[str, Any]] = {}
        for message in messages:
            if message["role"] == "assistant":
                calls = [(c["function"], c["id"]) for c in message.get("tool_calls", ())]
                parts = [m.ToolCallPart(f["name"], json.loads(f["arguments"]), i) for f, i in calls]
                history.append(m.ModelResponse([m.TextPart(message["content"]), *parts]))
                origin[id(history[-1].parts[0])] = message
                continue
            if not history or isinstance(history[-1], m.ModelResponse):
                history.append(m.ModelRequest([]))
            history[-1].parts.append(part(message))
            origin[id(history[-1].parts[-1])] = message
        over = len(history) > (strategy.max_messages or len(history))
        if strategy.max_tokens and about["sent_tokens"](messages) > strategy.max_tokens:
            over = True
        if not over:
            return messages
        results = {one["tool_call_id"]: one for one in messages if one["role"] == "tool"}
        found = asyncio.run(strategy.compact(history, None))
        parts = [p for one in found for p in one.parts if not isinstance(p, m.ToolCallPart)]
        return [
            origin.get(id(p)) or {**results[p.tool_call_id], "content": p.content} for p in parts
        ]

    return edit
