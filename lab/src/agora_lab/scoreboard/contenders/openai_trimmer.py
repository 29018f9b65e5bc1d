"""The OpenAI Agents SDK's ToolOutputTrimmer, from the released package."""

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

TITLE = "OpenAI Agents trimmer"
SOURCE = "openai.github.io/openai-agents-python: extensions, tool output trimmer"
PACKAGES = ("openai-agents==0.24.0",)
SETTINGS: dict[str, dict[str, Any]] = {
    "default: 2 user turns, 500 characters": {},
    "recent_turns 1": {"recent_turns": 1},
}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: a filter of each call's input."""
    trimmer = importlib.import_module("agents.extensions").ToolOutputTrimmer(**settings)

    def item(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["role"] == "tool":
            key, text = message["tool_call_id"], message["content"]
            return [{"type": "function_call_output", "call_id": key, "output": text}]
        calls = [
            {"type": "function_call", "call_id": call["id"], **call["function"]}
            for call in message.get("tool_calls", ())
        ]
        return [{"role": message["role"], "content": message["content"]}, *calls]

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        items = [one for message in messages for one in item(message)]
        data = SimpleNamespace(model_data=SimpleNamespace(input=items, instructions=None))
        outputs = {
            one["call_id"]: one["output"]
            for one in trimmer(data).input
            if one.get("type") == "function_call_output"
        }
        return [
            {**m, "content": outputs[m["tool_call_id"]]}
            if m["role"] == "tool" and outputs[m["tool_call_id"]] != m["content"]
            else m
            for m in messages
        ]

    return edit
