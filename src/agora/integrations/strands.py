"""Strands Agents: a model that is sent the compressed messages; the agent's messages stay whole.

A conversation manager edits `agent.messages` itself, which is what the agent keeps.
"""

import asyncio
import copy
import json
import logging
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.formats.anthropic import REMOVED
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, is_bound
from agora.integrations.wire import Message, call, image_part, redacted, text_part, thought, tool

try:
    from strands.models import Model
except ImportError as error:
    raise MissingExtraError(__name__, "strands") from error

M = TypeVar("M", bound=Model)


def compressed(model: M, compressor: Compressor | None = None) -> M:
    """Return a model like `model`, of its type, for `Agent(model=compressed(model))`."""
    used, fail_open = compressor or Compressor(), FailOpen(logging.getLogger(__name__))
    kind = type(model)
    claude = kind.__name__.startswith(("Anthropic", "Bedrock"))

    async def stream(
        self: Any,
        messages: list[Message],
        tool_specs: list[Message] | None = None,
        system_prompt: str | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        name = self.get_config().get("model_id")
        edited = await asyncio.to_thread(
            fail_open,
            lambda: shorten(
                used,
                messages,
                format="anthropic" if claude else "openai",
                model=name,
                system=system_prompt,
                tools=[_tool(spec) for spec in tool_specs or ()],
            ),
            messages,
            (lambda: _without_thinking(messages)) if is_bound(used, name) else None,
        )
        async for event in kind.stream(self, edited, tool_specs, system_prompt, **options):
            yield event

    wrapped = copy.copy(model)
    wrapped.__class__ = type(kind.__name__, (kind,), {"stream": stream})
    return wrapped


def shorten(compressor: Compressor, messages: Sequence[Message], **options: Any) -> list[Message]:
    """Return the messages to send. It lets errors out. `options` is what `compress_chat` takes."""
    format = options.setdefault("format", "openai")
    runs = [(at, run) for at, message in enumerate(messages) for run in _runs(message["content"])]
    chat = [_chat(messages[at]["role"], run, format) for at, run in runs]
    compressed = compress_chat(compressor, chat, **options)
    if compressed is None:
        return list(messages)
    stays = compressed.regroup(runs, _edit, _bare)
    return [{**messages[at], "content": content} for at, content in stays.items()]


def _runs(content: list[Message]) -> list[list[Message]]:
    """Return the blocks by message that they go out as: each result, and what stands between."""
    numbered = groupby(enumerate(content), lambda pair: pair[0] if "toolResult" in pair[1] else -1)
    return [[block for _, block in run] for _, run in numbered]


def _chat(role: str, blocks: list[Message], format: str) -> Message:
    if "toolResult" in blocks[0]:
        result = blocks[0]["toolResult"]
        parts = [_part(block) for block in result["content"]]
        texts = [part["text"] for part in parts if "text" in part]
        content = "\n".join(texts) if len(texts) == len(parts) else parts
        return {"role": "tool", "tool_call_id": result["toolUseId"], "content": content}
    said = [_part(b) for b in blocks if "toolUse" not in b and "reasoningContent" not in b]
    if role == "user":
        return {"role": "user", "content": said}
    uses = [block["toolUse"] for block in blocks if "toolUse" in block]
    thoughts = (_thought(block["reasoningContent"], format) for block in blocks if _signed(block))
    return {
        "role": "assistant",
        "content": said,
        "thoughts": list(thoughts),
        "tool_calls": [call(u["toolUseId"], u["name"], json.dumps(u["input"])) for u in uses],
    }


def _part(block: Message) -> Message:
    if "json" in block:
        return text_part(json.dumps(block["json"], ensure_ascii=False))
    return text_part(block["text"]) if "text" in block else image_part()


def _signed(block: Message) -> bool:
    """Return True if a block is thinking that its model checks; what is not signed is not sent."""
    reasoning = block.get("reasoningContent") or {}
    signature = (reasoning.get("reasoningText") or {}).get("signature")
    return bool(signature or reasoning.get("redactedContent"))


def _thought(reasoning: Message, format: str) -> Message:
    if reasoning.get("redactedContent"):
        return redacted(reasoning["redactedContent"])
    said = reasoning["reasoningText"]
    return thought(format, said.get("text", ""), said["signature"])


def _bare(blocks: list[Message]) -> list[Message]:
    return [block for block in blocks if not _signed(block)]


def _without_thinking(messages: Sequence[Message]) -> list[Message]:
    """Return messages without signed thinking, where it is not known which of it still holds."""
    return [
        {**message, "content": _bare(message["content"]) or [{"text": REMOVED}]}
        if any(map(_signed, message["content"]))
        else message
        for message in messages
    ]


def _edit(blocks: list[Message], kept: Kept) -> list[Message]:
    texts = [{"text": text} for text in kept.texts]
    if kept.how == "after" or not (blocks and "toolResult" in blocks[0]):
        return texts if kept.how == "after" else [*blocks, *texts]
    result = blocks[0]["toolResult"]
    content = list(result["content"]) if kept.how == "append" else []
    if content and "text" in content[-1]:
        texts = [{"text": "\n\n".join([content.pop()["text"], *kept.texts])}]
    return [{"toolResult": {**result, "content": [*content, *texts]}}]


def _tool(spec: Message) -> Message:
    return tool(spec["name"], spec["description"], spec["inputSchema"].get("json"))
