"""Inspect AI: a compaction strategy that elides whole steps when the input grows too long."""

import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agora.adapters.thoughts import REMOVED
from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, is_bound, with_text
from agora.integrations.wire import Message, call, image_part, redacted, text_part, thought, tool

try:
    import anyio.to_thread
    import inspect_ai.model as inspect_model
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageUser,
        CompactionStrategy,
        ContentText,
        Model,
    )
except ImportError as error:
    raise MissingExtraError(__name__, "inspect-ai") from error

_CONVERSATIONS = 64
"""How many are remembered, by what was left of them: more than run at once."""


class AgoraCompaction(CompactionStrategy):
    """A strategy for `react(compaction=AgoraCompaction(threshold=30_000))`.

    Inspect decides when, by its threshold, so the schedule by price is not asked. It hands over
    what earlier compactions left; steps are numbered in the whole conversation all the same, since
    the strategy remembers what it elided. Inspect ends a sample whose input stays above the
    threshold: where nothing can be elided, or something fails, `otherwise` takes over. Thinking
    that a model binds to the prefix goes with whatever edit comes after it, also one of these.
    """

    def __init__(
        self,
        compressor: Compressor | None = None,
        *,
        threshold: float = 0.9,
        otherwise: CompactionStrategy | None = None,
        memory: bool = True,
    ) -> None:
        super().__init__(type="trim", threshold=threshold, memory=memory)
        self._compressor = replace(compressor or Compressor(), schedule="every_call")
        self._otherwise = otherwise or inspect_model.CompactionTrim(threshold=threshold)
        self._open = FailOpen(logging.getLogger(__name__))
        self._whole: OrderedDict[tuple[str, ...], list[ChatMessage]] = OrderedDict()

    async def compact(
        self, model: Model, messages: list[ChatMessage], tools: list[Any]
    ) -> tuple[list[ChatMessage], ChatMessageUser | None]:
        """Return the input to present to the model; the history keeps everything."""
        asked = tuple(str(message.id) for message in messages)
        given = next((ids for ids in self._whole if asked[: len(ids)] == ids), ())
        if given != asked:
            whole = [*self._whole.pop(given, ()), *messages[len(given) :]]
            shorter = await anyio.to_thread.run_sync(
                self._open, lambda: shorten(self._compressor, whole, model, tools), None
            )
            if shorter is not None:
                self._whole[tuple(str(message.id) for message in shorter)] = whole
                if len(self._whole) > _CONVERSATIONS:
                    self._whole.popitem(last=False)
                return shorter, None
        # Nothing to elide, or Inspect asks again because what we gave was not short enough.
        left, note = await self._otherwise.compact(model, messages, tools)
        if left != messages and is_bound(self._compressor, model.name):
            left = [_spoken(_bare(message)) for message in left]
        return left, note


def shorten(
    compressor: Compressor, messages: Sequence[ChatMessage], model: Model, tools: Sequence[Any]
) -> list[ChatMessage] | None:
    """Return the messages to send, or None when nothing is elided. It lets errors out."""
    format = "anthropic" if "anthropic" in type(model.api).__name__.lower() else "openai"
    format = "responses" if getattr(model.api, "responses_api", None) else format
    compressed = compress_chat(
        compressor,
        [_chat(message, format) for message in messages],
        format=format,
        model=model.name,
        tools=[
            tool(t.name, t.description, t.parameters.model_dump(exclude_none=True)) for t in tools
        ],
    )
    return None if compressed is None else compressed.rebuild(messages, _edit, _bare)


def _chat(message: ChatMessage, format: str) -> Message:
    content = message.content
    parts = [ContentText(text=content)] if isinstance(content, str) else content
    chat: Message = {"role": message.role, "content": content}
    if not isinstance(content, str) or (format == "responses" and message.role == "user"):
        chat["content"] = [text_part(p.text) if p.type == "text" else image_part() for p in parts]
    if message.role == "tool":
        chat["tool_call_id"] = message.tool_call_id
    if message.role == "assistant":
        calls = message.tool_calls or ()
        chat["content"] = message.text
        chat["thoughts"] = [_thought(part, format) for part in parts if part.type == "reasoning"]
        chat["tool_calls"] = [call(c.id, c.function, json.dumps(c.arguments)) for c in calls]
    return chat


def _thought(part: Any, format: str) -> Message:
    if part.redacted and not part.signature and format != "responses":
        # How Inspect holds Claude's thinking: the signature, and beside it what may be read of it.
        sealed = part.reasoning
        return redacted(sealed) if part.summary is None else thought(format, part.summary, sealed)
    return thought(format, part.reasoning, part.signature)


def _bare(message: ChatMessage) -> ChatMessage:
    """Return a message without the model's reasoning; one that has none is the caller's own."""
    if isinstance(message.content, str):
        return message
    content = [part for part in message.content if part.type != "reasoning"]
    if len(content) == len(message.content):
        return message
    return message.model_copy(update={"content": content})


def _spoken(message: ChatMessage) -> ChatMessage:
    """Return a message that says something: an assistant's may not be empty."""
    if message.content or getattr(message, "tool_calls", None):
        return message
    return message.model_copy(update={"content": REMOVED})


def _edit(message: ChatMessage, kept: Kept) -> list[ChatMessage]:
    if kept.how == "after":
        return [ChatMessageUser(content="\n\n".join(kept.texts))]
    content = with_text(message.content, kept, lambda text: ContentText(text=text))
    return [message.model_copy(update={"content": content})]
