"""Microsoft Agent Framework: chat middleware that compresses what a chat client is sent."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, with_text
from agora.integrations.wire import Message, call, image_part, tool

try:
    from agent_framework import ChatContext, ChatMiddleware, Content, FunctionTool
    from agent_framework import Message as FrameworkMessage
except ImportError as error:
    raise MissingExtraError(__name__, "agent-framework") from error


class AgoraMiddleware(ChatMiddleware):
    """Middleware for `Agent(client=…, middleware=[AgoraMiddleware()])`.

    It runs at every call of the chat client. The session's history keeps everything.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        self._compressor = compressor or Compressor()
        self._open = FailOpen(logging.getLogger(__name__))

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Call the client with the compressed messages; scoring runs in a thread."""
        own = context.messages
        context.messages = await asyncio.to_thread(self._open, lambda: self._edited(context), own)
        await call_next()

    def _edited(self, context: ChatContext) -> Any:
        options = context.options or {}
        if options.get("conversation_id"):
            return context.messages  # The provider keeps part of the messages itself.
        tools = [t for t in options.get("tools") or () if isinstance(t, FunctionTool)]
        return shorten(
            self._compressor,
            context.messages,
            model=options.get("model") or getattr(context.client, "model", None),
            system=options.get("instructions"),
            tools=[tool(t.name, t.description, t.parameters()) for t in tools],
        )


def shorten(
    compressor: Compressor, messages: Sequence[FrameworkMessage], **options: Any
) -> list[FrameworkMessage]:
    """Return the messages to send. It lets errors out. `options` is what `compress_chat` takes."""
    # What the agent says is one message on the wire; of the others each content is one.
    runs = [
        (at, run)
        for at, message in enumerate(messages)
        for run in ([message.contents] if message.role == "assistant" else _each(message.contents))
    ]
    chat = [_chat(messages[at].role, run) for at, run in runs]
    compressed = compress_chat(compressor, chat, **options)
    if compressed is None:
        return list(messages)
    return [
        messages[at] if contents == list(messages[at].contents) else _copy(messages[at], contents)
        for at, contents in compressed.regroup(runs, _edit).items()
    ]


def _each(contents: Sequence[Content]) -> list[list[Content]]:
    return [[content] for content in contents]


def _copy(message: FrameworkMessage, contents: list[Content]) -> FrameworkMessage:
    return FrameworkMessage(
        message.role,
        contents,
        author_name=message.author_name,
        message_id=message.message_id,
        additional_properties=message.additional_properties,
    )


def _chat(role: str, contents: Sequence[Content]) -> Message:
    if role == "assistant":
        calls = [content for content in contents if content.type == "function_call"]
        texts = [content.text or "" for content in contents if content.type == "text"]
        made = [call(c.call_id, c.name, str(c.arguments or "{}")) for c in calls]
        return {"role": role, "content": "\n".join(texts), "tool_calls": made}
    content = contents[0]
    if content.type == "function_result":
        return {"role": "tool", "tool_call_id": content.call_id, "content": str(content.result)}
    if content.type == "text":
        return {"role": role, "content": content.text or ""}
    return {"role": role, "content": [image_part()]}


def _edit(contents: Sequence[Content], kept: Kept) -> list[Content]:
    own = contents[0]
    if own.type == "function_result":
        result = with_text(str(own.result), kept)
        return [Content.from_function_result(own.call_id, result=result)]
    if own.type == "text":
        return [Content.from_text(with_text(own.text or "", kept))]
    return [own, *(Content.from_text(text) for text in kept.texts)]
