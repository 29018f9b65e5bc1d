"""Items of the Responses API on their way to a model that binds its thinking to the prefix.

Agents SDK and LiteLLM write them as messages of Anthropic's on the way. They carry its thinking as
reasoning items, signatures included, so an edit has to take out those that are older than itself.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.integrations.compress_chat import Kept, compress_chat, with_text
from agora.integrations.wire import Message, call, image_part, text_part, thought


def compress_items(
    compressor: Compressor, items: Sequence[Message], **options: Any
) -> tuple[list[Message], Compression] | None:
    """Return the items to send and the account of it, or None when they stay as they are.

    `options` is what `compress_chat` takes.

    Raises:
        ValueError: an item is none that Anthropic's messages have a word for.
    """
    runs = [
        [item for _, item in run]
        for _, run in groupby(enumerate(items), lambda pair: -1 if _is_agent(pair[1]) else pair[0])
    ]
    chat = [_chat(run) for run in runs]
    compressed = compress_chat(compressor, chat, **{**options, "format": "anthropic"})
    if compressed is None:
        return None
    stays = compressed.rebuild(runs, lambda run, kept: [_edit(run, kept)], without_thinking)
    return [item for run in stays for item in run], compressed.compression


def without_thinking(items: Sequence[Message]) -> list[Message]:
    """Return the items without signed reasoning; what is not signed goes out as text or not."""
    return [item for item in items if not _thoughts(item)]


def _kind(item: Message) -> str:
    return str(item.get("type") or "message")


def _is_agent(item: Message) -> bool:
    return _kind(item) in ("reasoning", "function_call") or item.get("role") == "assistant"


def _thoughts(item: Message) -> list[Message]:
    """Return the signed thinking in an item, block by block where the SDK kept the blocks."""
    if _kind(item) != "reasoning":
        return []
    blocks = (item.get("provider_data") or {}).get("thinking_blocks")
    if blocks:
        return list(blocks)
    sealed = item.get("encrypted_content")
    if not sealed:
        return []
    said = item.get("content") or item.get("summary") or ()
    return [thought("anthropic", "\n".join(part.get("text", "") for part in said), sealed)]


def _chat(run: list[Message]) -> Message:
    first = run[0]
    if _is_agent(first):
        said = [
            part for item in run if _kind(item) == "message" for part in _parts(item["content"])
        ]
        made = [item for item in run if _kind(item) == "function_call"]
        return {
            "role": "assistant",
            "content": said,
            "thoughts": [block for item in run for block in _thoughts(item)],
            "tool_calls": [call(c["call_id"], c["name"], c["arguments"]) for c in made],
        }
    if _kind(first) == "function_call_output":
        output = first["output"]
        content = output if isinstance(output, str) else _parts(output)
        return {"role": "tool", "tool_call_id": first["call_id"], "content": content}
    if _kind(first) != "message":
        raise ValueError(
            f"an item of the type {_kind(first)!r} has no counterpart in Anthropic's messages; "
            "messages, function calls, their outputs and reasoning have"
        )
    content = first["content"]
    return {
        "role": first["role"],
        "content": content if isinstance(content, str) else _parts(content),
    }


def _parts(content: Any) -> list[Message]:
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return [_part(part) for part in content]


def _part(part: Message) -> Message:
    if "text" in part or "refusal" in part:
        return text_part(part.get("text") or part.get("refusal") or "")
    return image_part() if "image" in _kind(part) else text_part(json.dumps(part))


def _input_text(text: str) -> Message:
    return {"type": "input_text", "text": text}


def _edit(run: list[Message], kept: Kept) -> list[Message]:
    if kept.how == "after":
        return [{"role": "user", "content": "\n\n".join(kept.texts)}]
    if not run or _is_agent(run[0]):
        said = {"role": "assistant", "content": "\n\n".join(kept.texts)}
        calls = [item for item in run if _kind(item) == "function_call"]
        return [*(item for item in run if item not in calls), said, *calls]
    first = run[0]
    field = "output" if "output" in first else "content"
    return [{**first, field: with_text(first[field], kept, _input_text)}]
