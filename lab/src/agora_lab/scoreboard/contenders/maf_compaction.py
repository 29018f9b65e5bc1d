"""Microsoft Agent Framework's compaction strategies without a model, as released."""

import asyncio
import importlib
import json
from collections.abc import Callable
from typing import Any

TITLE = "Microsoft Agent Framework"
SOURCE = "learn.microsoft.com/agent-framework, compaction; window 200k, output 32k"
PACKAGES = ("agent-framework-core==1.23.0",)
KEEPS = True
SETTINGS: dict[str, dict[str, Any]] = {
    "ContextWindow, default thresholds .5 and .8": {
        "kind": "ContextWindowCompactionStrategy",
        "max_context_window_tokens": 200_000,
        "max_output_tokens": 32_000,
    },
    "SlidingWindow, 20 groups": {"kind": "SlidingWindowStrategy", "keep_last_groups": 20},
}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook: a message that was excluded once stays excluded."""
    framework = importlib.import_module("agent_framework")
    apply = importlib.import_module("agent_framework._compaction").apply_compaction
    message_of, content = framework.Message, framework.Content
    options = {key: value for key, value in settings.items() if key != "kind"}
    strategy = getattr(framework, settings["kind"])(**options)
    tokenizer = framework.CharacterEstimatorTokenizer()

    def converted(message: dict[str, Any], number: int) -> Any:
        parts = [content.from_text(message["content"])]
        if message["role"] == "tool":
            key = message["tool_call_id"]
            parts = [content.from_function_result(call_id=key, result=message["content"])]
        for call in message.get("tool_calls", ()):
            function = call["function"]
            value = json.loads(function["arguments"])
            name = function["name"]
            parts.append(content.from_function_call(call_id=call["id"], name=name, arguments=value))
        return message_of(message["role"], parts, message_id=str(number))

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        own = [converted(message, at) for at, message in enumerate(messages)]
        sent = asyncio.run(apply(own, strategy=strategy, tokenizer=tokenizer))
        known = {str(at): message for at, message in enumerate(messages)}
        return [known.get(m.message_id) or {"role": m.role, "content": m.text} for m in sent]

    return edit
