"""Microsoft Agent Framework: chat middleware that compresses what a chat client is sent."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agora.adapters.thoughts import REMOVED
from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, is_bound, with_text
from agora.integrations.wire import Message, call, image_part, thought, tool

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
        bound = is_bound(self._compressor, _model(context))
        context.messages = await asyncio.to_thread(
            self._open,
            lambda: self._edited(context),
            own,
            (lambda: _without_thinking(own)) if bound else None,
        )
        await call_next()

    def _edited(self, context: ChatContext) -> Any:
        options = context.options or {}
        if options.get("conversation_id"):
            return context.messages  # The provider keeps part of the messages itself.
        tools = [t for t in options.get("tools") or () if isinstance(t, FunctionTool)]
        return shorten(
            self._compressor,
            context.messages,
            format="anthropic" if _is_claude(context.client) else "openai",
            model=_model(context),
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
    # Only Anthropic signs what it thinks; what others seal is theirs to sort out.
    signs = options.get("format") == "anthropic" or is_bound(compressor, options.get("model"))
    chat = [_chat(messages[at].role, run, signs=signs) for at, run in runs]
    compressed = compress_chat(compressor, chat, **options)
    if compressed is None:
        return list(messages)
    out = []
    for at, contents in compressed.regroup(runs, _edit, _bare).items():
        own = messages[at]
        # What stands behind results is the user's: a tool's message has no place for it.
        after = [c for c in contents if c.type == "text"] if own.role == "tool" else []
        left = [c for c in contents if c not in after]
        out.append(own if left == list(own.contents) else _copy(own, left))
        if after:
            out.append(FrameworkMessage("user", after))
    return out


def _model(context: ChatContext) -> str | None:
    return (context.options or {}).get("model") or getattr(context.client, "model", None)


def _is_claude(client: object) -> bool:
    return any("Anthropic" in kind.__name__ for kind in type(client).__mro__)


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


def _chat(role: str, contents: Sequence[Content], *, signs: bool) -> Message:
    if role == "assistant":
        calls = [content for content in contents if content.type == "function_call"]
        texts = [content.text or "" for content in contents if content.type == "text"]
        made = [call(c.call_id, c.name, _json(c.arguments)) for c in calls]
        said: Message = {"role": role, "content": "\n".join(texts), "tool_calls": made}
        if signs:
            signed = [c for c in contents if c.type == "text_reasoning" and c.protected_data]
            said["thoughts"] = [
                thought("anthropic", c.text or "", c.protected_data) for c in signed
            ]
        return said
    content = contents[0]
    if content.type == "function_result":
        return {"role": "tool", "tool_call_id": content.call_id, "content": str(content.result)}
    if content.type == "text":
        return {"role": role, "content": content.text or ""}
    return {"role": role, "content": [image_part()]}


def _json(arguments: Any) -> str:
    return arguments or "{}" if isinstance(arguments, str) else json.dumps(arguments or {})


def _bare(contents: Sequence[Content]) -> list[Content]:
    """Return what an agent said without its signed thinking.

    What was streamed may hold the signature apart from the text; with an id and none, it is text.
    """
    return [
        content
        for content in contents
        if content.type != "text_reasoning" or (content.id and not content.protected_data)
    ]


def _without_thinking(messages: Sequence[FrameworkMessage]) -> list[FrameworkMessage]:
    """Return messages without signed thinking, where it is not known which of it still holds."""
    out = []
    for message in messages:
        left = _bare(message.contents)
        same = len(left) == len(message.contents)
        out.append(message if same else _copy(message, left or [Content.from_text(REMOVED)]))
    return out


def _edit(contents: Sequence[Content], kept: Kept) -> list[Content]:
    if kept.how == "after":
        return [Content.from_text("\n\n".join(kept.texts))]
    if len(contents) != 1:  # What an agent said; of the others each content is by itself.
        return [*contents, *(Content.from_text(text) for text in kept.texts)]
    own = contents[0]
    if own.type == "function_result":
        result = with_text(str(own.result), kept)
        return [Content.from_function_result(own.call_id, result=result)]
    if own.type == "text":
        return [Content.from_text(with_text(own.text or "", kept))]
    return [own, *(Content.from_text(text) for text in kept.texts)]
