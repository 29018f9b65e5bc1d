"""Inspect's compaction without a model: CompactionEdit and CompactionTrim, as released."""

import asyncio
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

TITLE = "Inspect compaction"
SOURCE = "inspect.aisi.org.uk/compaction.html; windows of 200k tokens"
PACKAGES = ("inspect-ai==0.3.285",)
KEEPS = True
SETTINGS: dict[str, dict[str, Any]] = {
    "CompactionEdit, default: threshold .9": {"kind": "CompactionEdit", "threshold": 180_000},
    "CompactionEdit, threshold 100k": {"kind": "CompactionEdit", "threshold": 100_000},
    "CompactionTrim, threshold 100k": {"kind": "CompactionTrim", "threshold": 100_000},
}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: above the threshold the strategy compacts, and its result is kept.

    Its handler learns a prompt's size from the provider's usage; so here. Thinking stays, as for
    providers whose history the package does not compact.
    """
    model = importlib.import_module("inspect_ai.model")
    strategy = getattr(model, settings["kind"])(memory=False)
    own = SimpleNamespace(api=SimpleNamespace(compact_reasoning_history=lambda: False))
    make = {"system": model.ChatMessageSystem, "user": model.ChatMessageUser}

    def converted(message: dict[str, Any], number: int, *, new: bool) -> Any:
        role, fields = message["role"], {"content": message["content"], "id": str(number)}
        if role == "tool":
            key = message["tool_call_id"]
            return model.ChatMessageTool(tool_call_id=key, **fields)
        if role in make:
            return make[role](source="input" if role == "user" and not new else None, **fields)
        tool_call = importlib.import_module("inspect_ai.tool").ToolCall
        calls = [
            tool_call(id=call["id"], function=call["function"]["name"], arguments={})
            for call in message.get("tool_calls", ())
        ]
        return model.ChatMessageAssistant(tool_calls=calls or None, **fields)

    def edit(messages: list[dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
        if about["sent_tokens"](messages) <= settings["threshold"]:
            return messages
        own_form = [converted(m, at, new=at > 1) for at, m in enumerate(messages)]
        result, _ = asyncio.run(strategy.compact(own, own_form, []))
        at_ids = {one.id: at for at, one in enumerate(own_form)}
        by_call = {m["tool_call_id"]: m for m in messages if m["role"] == "tool"}
        return [
            messages[at_ids[one.id]]
            if one.id in at_ids
            else {**by_call[one.tool_call_id], "content": one.text}
            for one in result
        ]

    return edit
