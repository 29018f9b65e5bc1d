"""maf-compaction's strategies without a model, which are shaped around the prompt's cache."""

import asyncio
import importlib
import json
from collections.abc import Callable
from typing import Any

TITLE = "maf-compaction"
SOURCE = "pypi.org/project/maf-compaction; window 200k, output 32k, its example's other settings"
PACKAGES = ("maf-compaction==0.9.0",)
PYTHON = "3.12"
SETTINGS: dict[str, dict[str, Any]] = {
    "Anchored": {"kind": "AnchoredCompactionStrategy"},
    "MinimumGainAnchored": {"kind": "MinimumGainAnchoredCompactionStrategy"},
}
_MOST_TOKENS = 200_000 - 32_000


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: the framework's messages live on, with the strategy's notes on them."""
    framework = importlib.import_module("agent_framework")
    apply = importlib.import_module("agent_framework._compaction").apply_compaction
    content = framework.Content
    tokenizer = framework.CharacterEstimatorTokenizer()
    make = getattr(importlib.import_module("maf_compaction"), settings["kind"])
    strategy = make(max_input_tokens=_MOST_TOKENS, tokenizer=tokenizer)
    own: list[Any] = []
    known: dict[str, dict[str, Any]] = {}

    def converted(message: dict[str, Any], number: str) -> Any:
        parts = [content.from_text(message["content"])]
        if message["role"] == "tool":
            key = message["tool_call_id"]
            parts = [content.from_function_result(call_id=key, result=message["content"])]
        for call in message.get("tool_calls", ()):
            name, value = call["function"]["name"], json.loads(call["function"]["arguments"])
            parts.append(content.from_function_call(call_id=call["id"], name=name, arguments=value))
        return framework.Message(message["role"], parts, message_id=number)

    def sent(message: Any) -> dict[str, Any]:
        origin = known.get(message.message_id)
        if origin is None:
            return {"role": message.role, "content": message.text}
        if origin["role"] == "tool" and message.contents[0].result != origin["content"]:
            return {**origin, "content": message.contents[0].result}
        return origin

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        for message in messages[len(known) :]:
            own.append(converted(message, str(len(known))))
            known[own[-1].message_id] = message
        return list(map(sent, asyncio.run(apply(own, strategy=strategy, tokenizer=tokenizer))))

    return edit
