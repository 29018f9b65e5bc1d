"""LangChain and LangGraph: what the model is sent is compressed, what the graph keeps is not."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agora.compressor import Compressor
from agora.errors import MissingExtraError
from agora.formats.thinking import is_thinking
from agora.integrations.compress_chat import FailOpen, Kept, compress_chat, is_bound, with_text
from agora.integrations.wire import (
    ASIDE,
    Message,
    call,
    redacted,
    text_part,
    thought,
    thoughts_aside,
)

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise MissingExtraError(__name__, "langchain") from error

_ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}


class AgoraMiddleware(AgentMiddleware):
    """Middleware for `create_agent`: each model call gets the compressed messages.

    The agent's state is read and never written, so nothing of the edit is kept in it or in a
    checkpoint.
    """

    def __init__(self, compressor: Compressor | None = None) -> None:
        super().__init__()
        self._compressor = compressor or Compressor()
        self._open = FailOpen(logging.getLogger(__name__))

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Call the model with the compressed messages."""
        return handler(self._given(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        """Call the model with the compressed messages; scoring runs in a thread."""
        return await handler(await asyncio.to_thread(self._given, request))

    def _given(self, request: ModelRequest) -> ModelRequest:
        bound = is_bound(self._compressor, _name(request.model, request.messages))

        def bare() -> ModelRequest:
            return request.override(messages=[_bare(message) for message in request.messages])

        return self._open(lambda: self._edited(request), request, bare if bound else None)

    def _edited(self, request: ModelRequest) -> ModelRequest:
        model = request.model
        if getattr(model, "use_previous_response_id", False):
            return request  # The provider keeps part of the messages itself.
        messages = shorten(
            self._compressor,
            request.messages,
            model=_name(model, request.messages),
            system=request.system_prompt,
            tools=[convert_to_openai_tool(tool) for tool in request.tools],
            format=_format(model),
            thinking=_is_on(getattr(model, "thinking", None)),
        )
        return request if messages is None else request.override(messages=messages)


class AgoraEdit:
    """An edit for `ContextEditingMiddleware`, alongside its own.

    `model` is for the prices, and for whether an edit costs its thinking; if it is not given, the
    last answer may tell.
    """

    def __init__(self, compressor: Compressor | None = None, *, model: str | None = None) -> None:
        self._compressor = compressor or Compressor()
        self._model = model
        self._open = FailOpen(logging.getLogger(__name__))

    def apply(self, messages: list[Any], *, count_tokens: Any) -> None:  # noqa: ARG002
        """Compress `messages` in place: the middleware hands over a copy for that."""
        model = self._model or _answered(messages)
        bound = is_bound(self._compressor, model)
        edited = self._open(
            lambda: shorten(self._compressor, messages, model=model),
            None,
            (lambda: [_bare(message) for message in messages]) if bound else None,
        )
        if edited is not None:
            messages[:] = edited


def shorten(
    compressor: Compressor, messages: Sequence[BaseMessage], **options: Any
) -> list[BaseMessage] | None:
    """Return the messages to send, for a graph's own node, or None when they stay as they are.

    Unlike the two classes it lets errors out. `options` is what `compress_chat` takes.
    """
    chat = [_chat(message) for message in messages]
    compressed = compress_chat(compressor, chat, **options)
    return None if compressed is None else compressed.rebuild(messages, _edit, _bare)


def _chat(message: BaseMessage) -> Message:
    content = message.content
    chat: Message = {"role": _ROLES[message.type], "content": content}
    if isinstance(message, ToolMessage):
        chat["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage):
        given = [content] if isinstance(content, str) else content
        blocks = [text_part(block) if isinstance(block, str) else block for block in given]
        chat["content"] = [b for b in blocks if b.get("type") == "text" and b["text"]]
        aside = thoughts_aside(message.additional_kwargs)
        chat["thoughts"] = [*map(_thought, filter(_thought, blocks)), *aside]
        calls = [(c["id"], c["name"], json.dumps(c["args"])) for c in message.tool_calls]
        calls += [(c["id"], c["name"], c["args"]) for c in message.invalid_tool_calls]
        if calls:
            chat["tool_calls"] = [call(*made) for made in calls]
    return chat


def _edit(message: BaseMessage, kept: Kept) -> list[BaseMessage]:
    if kept.how == "after":
        return [HumanMessage("\n\n".join(kept.texts))]
    return [message.model_copy(update={"content": with_text(message.content, kept)})]


def _thought(block: Any) -> Message | None:
    """Return a block of thinking as the provider gave it, or None for any other block."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "non_standard":  # How LangChain's own blocks have what it has no word for.
        return _thought(block.get("value"))
    if kind == "reasoning":
        signature = (block.get("extras") or {}).get("signature")
        return thought("anthropic", block.get("reasoning", ""), signature) if signature else block
    if kind == "reasoning_content":
        inner = block.get("reasoning_content") or {}
        if inner.get("signature"):
            return thought("anthropic", inner.get("text", ""), inner["signature"])
        sealed = inner.get("redacted_content") or inner.get("redactedContent")
        return redacted(sealed) if sealed else None
    return block if kind in ("thinking", "redacted_thinking") else None


def _bare(message: BaseMessage) -> BaseMessage:
    """Return a message without its signed thinking; one that has none is the caller's own."""
    if not isinstance(message, AIMessage):
        return message
    content: Any = message.content
    if isinstance(content, list):
        content = [block for block in content if not is_thinking(_thought(block))]
    aside = {k: v for k, v in message.additional_kwargs.items() if k not in ASIDE}
    if content == message.content and aside == message.additional_kwargs:
        return message
    return message.model_copy(update={"content": content, "additional_kwargs": aside})


def _name(model: Any, messages: Sequence[BaseMessage]) -> str | None:
    names = (getattr(model, name, None) for name in ("model_name", "model", "model_id"))
    return next(filter(None, names), None) or _answered(messages)


def _answered(messages: Sequence[BaseMessage]) -> str | None:
    """Return the model that gave the last answer, if it is told."""
    told = (m.response_metadata for m in reversed(messages) if isinstance(m, AIMessage))
    return next((name for data in told if (name := data.get("model_name"))), None)


def _format(model: Any) -> str:
    if "anthropic" in model._llm_type:
        return "anthropic"
    return "responses" if getattr(model, "use_responses_api", None) else "openai"


def _is_on(thinking: object) -> bool | None:
    return thinking.get("type") != "disabled" if isinstance(thinking, dict) else None
